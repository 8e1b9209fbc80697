// live.mjs RUN-DIRECTORY - the page of a running job with a slow rank and a restart.  Reads only accessible names.
// SPDX-License-Identifier: Apache-2.0
import { basename } from 'node:path';
import { controlOf, linkOf, openBrowser, result, until } from './browser.mjs';

const directory = process.argv[2], run = basename(directory);
const control = controlOf(directory);
const { browser, context, page, complaints } = await openBrowser();

await page.goto(await linkOf(control));
await page.getByRole('status', { name: /^Health: / }).waitFor({ timeout: 60000 });
result(!page.url().includes('key='), 'the key does not stay in the address bar', page.url());
result(page.url().includes(`/run/${run}/now`), 'the only run is shown at once', page.url());
await page.getByRole('status', { name: 'Connection: live' }).waitFor();
result(true, 'the page says that it is live');

// Five questions, each answered on the first view.
const card = page.getByRole('article', { name: /^straggler: Rank 2 / }).first();
await card.waitFor({ timeout: 60000 });
const name = async (pattern) => await card.getByRole('group', { name: pattern }).first().getAttribute('aria-label');
result(/^Which rank: Rank 2 \(node n0\)$/.test(await name(/^Which rank: /)), 'which rank');
result(/step (2[89]|3[0-2])$/.test(await name(/^Since when: /)), 'since when', await name(/^Since when: /));
result(/^What it cost: [\d.]+ GPU-(seconds|hours)$/.test(await name(/^What it cost: /)), 'what it cost', await name(/^What it cost: /));
const crash = page.getByRole('article', { name: /^crash: Rank 4 / });
await crash.waitFor({ timeout: 60000 });
const done = await crash.getByRole('group', { name: /^What was done: / }).getAttribute('aria-label');
result(/all ranks restarted as attempt 1/.test(done), 'what was done', done);
await crash.getByRole('group', { name: /^Which checkpoint: / }).waitFor({ timeout: 60000 });
const from = await crash.getByRole('group', { name: /^Which checkpoint: / }).getAttribute('aria-label');
result(/^Which checkpoint: step \d+$/.test(from), 'which checkpoint', from);

// It moves.
const step = async () => +((await page.getByRole('group', { name: /^Step: / }).getAttribute('aria-label')).match(/\d+/) ?? [0])[0];
const before = await step();
result(await until(async () => (await step()) > before + 3), 'the step moves on by itself', before);

// The other views.
await page.getByRole('link', { name: 'Ranks × steps' }).click();
const sheet = page.getByRole('img', { name: /^Heatmap of 8 ranks/ });
await sheet.waitFor();
result(await until(async () => /Worst: rank 2, /.test((await sheet.getAttribute('aria-label')) ?? '')), 'the heatmap names the worst rank', await sheet.getAttribute('aria-label'));
await sheet.focus();
await page.keyboard.press('ArrowLeft');
result(await until(() => /[?&]column=\d+/.test(page.url())), 'a cell can be chosen by keyboard, and has an address', page.url());
const area = await sheet.boundingBox();
await page.mouse.click(area.x + area.width / 3, area.y + area.height / 2);
result(await until(async () => (await page.getByRole('img', { name: /^Timeline of step \d+: rank \d beside the median of \d peers/ }).count()) === 1), 'a click shows the step of that rank beside the median of its peers', page.url());
await page.getByRole('link', { name: 'Ledger' }).first().click();
await page.getByRole('table', { name: 'From allocated to productive GPU time' }).waitFor();
result((await page.getByRole('row', { name: /^straggler-wait/ }).count()) === 1, 'the ledger shows what waiting cost');
await page.getByRole('link', { name: 'Nodes' }).click();
result(await until(async () => (await page.getByRole('row', { name: /^n1 / }).count()) === 1), 'the nodes are listed');
const late = await context.newPage();
await late.addInitScript(() => { const now = Date.now; Date.now = () => now() + 600000; });
await late.goto(page.url());
result(await until(async () => (await late.getByRole('row', { name: /^n1 .* 4-7 (now|\d+ s ago) / }).count()) === 1), 'a wrong clock of the browser makes no node silent', await late.getByRole('row', { name: /^n1 / }).innerText());
await late.close();
await page.getByRole('link', { name: 'Runs', exact: true }).click();
result(await until(async () => (await page.getByRole('row', { name: new RegExp(run) }).count()) === 1), 'and the runs');
result(complaints.length === 0, 'no script fails, and nothing is forbidden by the policy', complaints.join('; '));
await browser.close();
