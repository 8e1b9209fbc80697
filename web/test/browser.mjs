// browser.mjs - what the tests of the page share: a browser, a session, results.
// SPDX-License-Identifier: Apache-2.0
import { chromium } from 'playwright-core';
import { readFileSync } from 'node:fs';

export function result(good, name, why = '') {
  console.log(`${good ? 'ok' : 'not ok'} ${name}`);
  if (!good && why) console.log(`# ${String(why).split('\n').join(' ')}`);
  return good;
}

/* A browser that reports what it must not: errors, and requests to anywhere but the controller. */
export async function openBrowser(options = {}) {
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ['--no-sandbox', '--disable-dev-shm-usage'] });
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, colorScheme: 'dark', ...options });
  const page = await context.newPage();
  const complaints = [];
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('console', (message) => {
    if (/Content Security Policy|Refused to/.test(message.text())) complaints.push(message.text());
  });
  page.on('dialog', (dialog) => {
    complaints.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  return { browser, context, page, complaints };
}

/* control.url of a run: address and a token that may read. */
export function controlOf(directory) {
  const [url, token] = readFileSync(`${directory}/control.url`, 'utf8').trim().split('\n');
  return { url, token };
}

export async function linkOf({ url, token }) {
  const answer = await fetch(`${url}/api/v1/login-links`, { method: 'POST', headers: { Authorization: `Bearer ${token}` } });
  if (!answer.ok) throw new Error(`login-links: ${answer.status} ${await answer.text()}`);
  return url + (await answer.json()).path;
}

export async function until(what, ms = 60000) {
  for (const end = Date.now() + ms; ; ) {
    const value = await what();
    if (value) return value;
    if (Date.now() > end) return value;
    await new Promise((wake) => setTimeout(wake, 50));
  }
}
