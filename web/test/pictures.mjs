// pictures.mjs RUN-DIRECTORY FOLDER - the pictures of docs/PAGE.md, from the page of a running job with a slow rank.
//
// usage: lockstep demo --name llama-7b --nodes 2 --layout tp=2,pp=1,dp=4 --step-ms 250 --steps 5000 -f kill:rank=4,step=60 -f gpu-slow:rank=5,step=100,factor=1.5
//        CHROMIUM=/usr/bin/chromium node web/test/pictures.mjs "$LOCKSTEP_STATE/runs/llama-7b" docs/pictures      when it has 200 steps
// SPDX-License-Identifier: Apache-2.0
import { basename } from 'node:path';
import { controlOf, linkOf, openBrowser } from './browser.mjs';

const [directory, folder] = process.argv.slice(2), run = basename(directory), control = controlOf(directory);
const { browser, page } = await openBrowser({ viewport: { width: 1180, height: 620 } });
await page.goto(await linkOf(control));
const card = page.getByRole('article', { name: /^straggler: Rank 5 / }).first();
await card.waitFor({ timeout: 60000 });
if (await card.getByRole('button', { name: 'Evidence and what to do' }).count()) await card.getByRole('button', { name: 'Evidence and what to do' }).click();
await page.screenshot({ path: `${folder}/now.png` });
await page.setViewportSize({ width: 1180, height: 1200 }); // else the head of the page covers a part
await card.screenshot({ path: `${folder}/verdict.png` });
await page.setViewportSize({ width: 1180, height: 620 });
const from = new URL(await card.getByRole('link', { name: /^Timeline of step / }).evaluate((link) => link.href)).hash;
for (const view of ['heatmap', 'ledger', 'nodes', 'timeline']) {
  await page.goto(`${control.url}/${view === 'timeline' ? from : `#/run/${run}/${view}`}`);
  const shown = { heatmap: page.getByRole('img', { name: /^Heatmap of / }), ledger: page.getByRole('list', { name: 'Verdicts over time' }), nodes: page.getByRole('table', { name: 'Nodes' }), timeline: page.getByRole('img', { name: /^Timeline of step / }) }[view];
  await shown.waitFor({ timeout: 60000 });
  if (view === 'heatmap') {
    await shown.focus();
    for (let i = 0; i < 5; i++) await page.keyboard.press('ArrowDown');
    for (let i = 0; i < 3; i++) await page.keyboard.press('Shift+ArrowLeft');
    await page.getByRole('img', { name: /^Timeline of step / }).waitFor({ timeout: 60000 });
    await page.setViewportSize({ width: 1180, height: 640 });
    await page.waitForTimeout(1000); // for the columns of the chosen cell
  }
  if (view === 'ledger') {
    await page.getByLabel('Parameters of the model, billion').fill('0.01');
    await page.getByLabel('Peak of one GPU, TFLOP/s').fill('2');
  }
  await page.evaluate(() => document.activeElement?.blur());
  await page.screenshot({ path: `${folder}/${view}.png`, fullPage: view === 'ledger' });
}
await browser.close();
