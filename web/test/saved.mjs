// saved.mjs FILE RUN MFU MTTF - a page that 'lockstep report -o' saved, from file:// and without a network.
// SPDX-License-Identifier: Apache-2.0
import { pathToFileURL } from 'node:url';
import { openBrowser, result, until } from './browser.mjs';

const [file, run, mfu, mttf] = process.argv.slice(2); // by lockstep report: in per cent, for the numbers entered below; in seconds
const { browser, context, page, complaints } = await openBrowser();
const asked = [];
await context.setOffline(true);
await context.route('**/*', (route) => {
  if (route.request().url().startsWith('file:') || route.request().url().startsWith('data:')) return route.continue();
  asked.push(route.request().url());
  return route.abort();
});
await page.goto(pathToFileURL(file).href);
const health = page.getByRole('status', { name: /^Health: / });
await health.waitFor({ timeout: 30000 });
result(/^Health: (Ended|\d+ open verdict)/.test(await health.getAttribute('aria-label')), 'the health at the end', await health.getAttribute('aria-label'));
result(await page.getByText(/^ended\b.* at \d{4}-\d\d-\d\d \d\d:/).first().isVisible(), 'and the time of the end, not of the beginning');
result((await page.getByRole('note').innerText()).includes(`Saved page of run ${run}`), 'it says that it is saved, and where detail ends');
result((await page.getByRole('article', { name: /^straggler: Rank 2 / }).count()) >= 1, 'the verdicts are there');
await page.getByRole('link', { name: 'Ranks × steps' }).click();
const sheet = page.getByRole('img', { name: /^Heatmap of / });
await sheet.waitFor();
result(await until(async () => /Worst: rank 2, /.test((await sheet.getAttribute('aria-label')) ?? ''), 20000), 'the heatmap is there', await sheet.getAttribute('aria-label'));
if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/saved-heatmap.png` });
await page.getByRole('link', { name: 'Now' }).click();
await page.getByRole('article', { name: /^straggler: Rank 2 / }).first().getByRole('link', { name: /^Timeline of step / }).click();
result(await page.getByRole('img', { name: /^Timeline of step \d+: rank 2 and 3 peers/ }).waitFor({ timeout: 20000 }).then(() => true, () => false), 'the timeline of a verdict is there, beside ranks that do the same');
await page.getByRole('link', { name: 'Ledger' }).first().click();
result(await page.getByRole('table', { name: 'From allocated to productive GPU time' }).waitFor({ timeout: 20000 }).then(() => true, () => false), 'the ledger is there');
const seconds = /^MTTF: ([\d.]+) s$/.exec(await page.getByRole('group', { name: /^MTTF: / }).getAttribute('aria-label'))?.[1];
result(Math.abs(seconds - mttf) < mttf / 50, 'its MTTF is that of lockstep report', `${seconds}, expected ${mttf} s`);
result(await page.getByRole('group', { name: /^MFU: not known, enter the size/ }).waitFor({ timeout: 20000 }).then(() => true, () => false), 'MFU is not made up');
await page.getByLabel('Parameters of the model, billion').fill('0.01');
await page.getByLabel('Peak of one GPU, TFLOP/s').fill('2');
const shown = await page.getByRole('group', { name: /^MFU: / }).getAttribute('aria-label');
result(Math.abs(+/^MFU: ([\d.]+) %, of the newest \d+ steps$/.exec(shown)?.[1] - mfu) < mfu / 10, `with both numbers it is that of lockstep report`, `${shown}, expected ${mfu} %`);
await page.reload();
await page.getByRole('group', { name: `${shown}` }).waitFor({ timeout: 20000 }).catch(() => undefined);
result((await page.getByRole('group', { name: /^MFU: / }).getAttribute('aria-label')) === shown, 'and the numbers stay');
result((await page.getByRole('list', { name: 'Verdicts over time' }).getByRole('link', { name: 'straggler 2' }).count()) === 1, 'a piece of the ledger over time leads to its verdict');
if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/saved-ledger.png` });
await page.getByRole('link', { name: 'Score card' }).click();
const card = page.getByRole('table', { name: 'Score card' });
result(await card.getByRole('row', { name: /^Goodput [\d.]+ % .* 90\.0 %$/ }).waitFor({ timeout: 20000 }).then(() => true, () => false), 'so is the score card, beside published figures');
result((await card.getByRole('row', { name: /^MFU not known peak FLOP\/s of a GPU not given/ }).count()) === 1, 'with the reason for what is not known');
result((await page.getByRole('table', { name: 'The dearest verdicts' }).getByRole('row', { name: /straggler Rank 2 / }).count()) === 1, 'and the dearest verdicts');
if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/saved-report.png` });
result(asked.length === 0, 'nothing is asked of any host', asked.join(' '));
result(complaints.length === 0, 'no script fails, and nothing is forbidden by the policy', complaints.join('; '));
await browser.close();
