// edge.mjs CASE URL TOKEN [RUN] - the page where there is little, much, nothing, or somebody hostile.
// SPDX-License-Identifier: Apache-2.0
import { writeFileSync, existsSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { linkOf, openBrowser, result, until } from './browser.mjs';

const [what, url, token, run, flag] = process.argv.slice(2);
const { browser, context, page, complaints } = await openBrowser();
const seen = (locator, ms = 60000) => locator.first().waitFor({ timeout: ms }).then(() => true, () => false);

const cases = {
  async empty() {
    await page.goto(await linkOf({ url, token }));
    result(await seen(page.getByText('No runs yet')), 'no runs: the page says how to begin');
  },

  async denied() {
    await page.goto(url);
    result(await seen(page.getByText('Not logged in')), 'without a session: how to get one');
    result(await seen(page.getByText('lockstep control --page')), 'with the command');
    await page.goto(await linkOf({ url, token }));
    result(await seen(page.getByText('No runs yet')), 'with a link it opens');
    await context.clearCookies();
    await page.reload();
    result(await seen(page.getByText('Not logged in')), 'a session that is over is not shown as data');
    await page.goto(`${url}/login?ticket=lst_${'0'.repeat(64)}`);
    result(await seen(page.getByText('lockstep control --page')), 'a wrong link names the command');
  },

  async one() {
    await page.goto(await linkOf({ url, token }));
    await page.goto(`${url}/#/run/${run}/heatmap`);
    result(await seen(page.getByRole('img', { name: /^Heatmap of 1 rank / })), 'one rank: the heatmap has one row');
    await page.goto(`${url}/#/run/${run}/timeline`);
    result(await seen(page.getByRole('img', { name: /^Timeline of step \d+: rank 0 and 0 peers/ })), 'its timeline stands alone');
    await page.goto(`${url}/#/run/${run}/nodes`);
    result(await seen(page.getByRole('table', { name: 'Nodes' }).getByRole('row', { name: /^one0 / })), 'and its node is listed');
    result(await seen(page.getByRole('table', { name: 'Findings' }).getByRole('row', { name: /one0 GPU 3 .*xid 79 error the GPU of one0 has fallen off the bus/ })), 'with what its sensors found');
    result(await seen(page.getByRole('table', { name: 'Checks' }).getByRole('row', { name: /one0 node memory prolog .*failed 1\.50 GB\/s slower than/ })), 'and what its checks said');
    await page.goto(`${url}/#/run/${run}/ledger`);
    const velocity = page.getByRole('group', { name: /^Learning velocity: [\d.]+(e\+\d+)? per GPU-hour/ });
    const shown = (await seen(velocity)) ? parseFloat((await velocity.getAttribute('aria-label')).split(': ')[1]) : 0;
    result(Math.abs(shown - flag) < flag / 100, 'the loss gives the learning velocity of lockstep report', `${shown}, expected ${flag}`);
    result(await seen(page.getByRole('group', { name: /^MFU: not known/ })), 'and what is not known is said');
  },

  async hostile() {
    await page.goto(await linkOf({ url, token }));
    for (const view of ['now', 'heatmap', 'timeline', 'ledger', 'nodes']) {
      await page.goto(`${url}/#/run/${run}/${view}`);
      await page.waitForTimeout(300); // for what must not happen
    }
    result(await seen(page.getByText('<img src=x onerror=alert(1)>').first()), 'hostile names are shown as they are');
    await page.goto(`${url}/#/runs`);
    result(await seen(page.getByRole('row', { name: /<script>alert\(2\)<\/script>/ })), 'so are hostile commands');
    result((await page.locator('img, script:not([src])').count()) === 0, 'and nothing of them became an element');
    await page.goto(`${url}/#/run/%3Cimg%20src=x%20onerror=alert(3)%3E/now`);
    result(await seen(page.getByRole('heading', { name: /<img src=x onerror=alert\(3\)>/ })), 'a hostile link names a run that is not there');
  },

  async large() {
    const begin = Date.now();
    await page.goto(await linkOf({ url, token }));
    await page.goto(`${url}/#/run/${run}/now`);
    const card = page.getByRole('article', { name: /^straggler: Rank 9001 / });
    result(await seen(card), 'among 16384 ranks the slow one is named');
    const label = async (pattern) => await card.getByRole('group', { name: pattern }).getAttribute('aria-label');
    result(/Rank 9001 \(node big140\)/.test(await label(/^Which rank: /)), 'which rank', await label(/^Which rank: /));
    result(/step \d+$/.test(await label(/^Since when: /)), 'since when');
    result(/GPU-/.test(await label(/^What it cost: /)), 'what it cost');
    result(/^What was done: /.test(await label(/^What was done: /)), 'what was done');
    result(await seen(page.getByRole('group', { name: /^Last verified checkpoint: not observed/ })), 'which checkpoint: none was observed, and this is said');
    await card.getByRole('link', { name: 'Show on heatmap' }).click();
    const sheet = page.getByRole('img', { name: /^Heatmap of 16384 ranks/ });
    await sheet.waitFor();
    result(await until(async () => /Worst: rank 900[01], /.test((await sheet.getAttribute('aria-label')) ?? '')), 'the heatmap shows it among all', await sheet.getAttribute('aria-label'));
    await page.getByLabel('Sort').selectOption('worst');
    result(await until(async () => /Worst: rank 900[01], /.test((await sheet.getAttribute('aria-label')) ?? '')), 'also when the worst are first');
    await page.goto(`${url}/#/run/${run}/timeline?rank=9001&step=12`);
    result(await seen(page.getByRole('img', { name: /^Timeline of step 12: rank 9001 and \d+ peers/ })), 'one click reads one step of it');
    await page.goto(`${url}/#/run/${run}/timeline?rank=9001&step=12&ranks=0-2,16383`);
    result(await seen(page.getByRole('img', { name: /^Timeline of step 12: rank 9001 and 4 peers/ })), 'beside any ranks that are asked for');
    console.log(`# ${Date.now() - begin} ms`);
  },

  async savedlarge() {
    await context.setOffline(true);
    await page.goto(pathToFileURL(url).href);
    result(await seen(page.getByRole('article', { name: /^straggler: Rank 9001 \(node big140\) / })), 'saved: the slow one is named');
    await page.goto(`${pathToFileURL(url).href}#/run/${run}/heatmap?rank=16383`);
    result(await seen(page.getByRole('img', { name: /^Heatmap of 16384 ranks .* Worst: rank 900[01], / })), 'and on the heatmap');
    result(await seen(page.getByRole('region', { name: 'Rank 16383' }).getByText('big255')), 'the last rank is known, too');
  },

  async dead() {
    await page.goto(await linkOf({ url, token }));
    await page.goto(`${url}/#/run/${run}/now`);
    const card = page.getByRole('article', { name: /^crash: Rank 0 / });
    result(await seen(card.getByRole('group', { name: 'Which checkpoint: step 5' })), 'a crash names the checkpoint that all ranks have verified');
    result(await seen(page.getByRole('group', { name: 'Last verified checkpoint: step 5' })), 'and so does the head of the page');
  },

  async narrow() {
    await page.setViewportSize({ width: 390, height: 844 });
    await page.goto(await linkOf({ url, token }));
    const wide = [];
    for (const view of ['now', 'heatmap', 'timeline', 'ledger', 'nodes']) {
      await page.goto(`${url}/#/run/${run}/${view}`);
      await page.getByRole('navigation').getByRole('link', { current: 'page' }).waitFor({ timeout: 60000 }).catch(() => undefined);
      await until(() => page.evaluate(() => !/Reading/.test(document.body.innerText)), 20000);
      if (await page.evaluate(() => document.documentElement.scrollWidth > innerWidth)) wide.push(view);
    }
    result(wide.length === 0, 'on a telephone no view is wider than the screen', wide.join());
  },

  async lost() {
    await page.goto(await linkOf({ url, token }));
    result(await seen(page.getByRole('status', { name: 'Connection: live' })), 'the page is live');
    writeFileSync(`${flag}.ready`, '');
    result(await seen(page.getByRole('alert')), 'a controller that is gone is reported');
    result(await seen(page.getByRole('status', { name: /^Connection: connection lost/ })), 'and since when');
    writeFileSync(`${flag}.lost`, '');
    await until(() => existsSync(`${flag}.back`));
    // Sessions end with the controller: the page does not show old data as live.
    result(await seen(page.getByText('Not logged in')), 'a new controller asks for a new session');
  },

  async pause() {
    await page.goto(await linkOf({ url, token }));
    result(await seen(page.getByRole('status', { name: 'Connection: live' })), 'the page is live');
    await context.setOffline(true);
    result(await seen(page.getByRole('alert')), 'a lost network is reported');
    await context.setOffline(false);
    result(await seen(page.getByRole('status', { name: 'Connection: live' })), 'the page reconnects by itself');
    result((await page.getByRole('alert').count()) === 0, 'and the warning goes');
  },
};
await cases[what]();
result(complaints.length === 0, `${what}: no script fails, and no dialog opens`, complaints.join('; '));
await browser.close();
