// build.mjs - bundles the page into web/dist, which is checked in and embedded in the program.
//
// usage: node build.mjs [DIRECTORY]     default: dist
//
// The output depends on the sources and on the package versions in package-lock.json alone, so that a test can
// build it again and compare.
// SPDX-License-Identifier: Apache-2.0
import { build } from 'esbuild';
import { copyFileSync, mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? join(here, 'dist');

mkdirSync(out, { recursive: true });
await build({
  absWorkingDir: here,
  entryPoints: { app: 'src/main.tsx' },
  outdir: out,
  bundle: true,
  minify: true,
  charset: 'utf8',
  target: ['chrome100', 'firefox100', 'safari15.4'],
  format: 'iife',
  jsx: 'automatic',
  jsxImportSource: 'preact',
  legalComments: 'none',
  banner: {
    js: '/* lockstep page. SPDX-License-Identifier: Apache-2.0. Contains preact, @preact/signals and uPlot (MIT). */',
    css: '/* lockstep page. SPDX-License-Identifier: Apache-2.0. Contains uPlot (MIT). */',
  },
});
copyFileSync(join(here, 'src/index.html'), join(out, 'index.html'));
