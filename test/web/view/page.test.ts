/** The page of `vf-view` over real runs, in a real Chromium. `npm test` builds both before. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { chromiumPath, openBrowser, runCommand, serve, type Served, watchedPage } from './watched-page.ts';

const path = chromiumPath();
const TRAIN = ['search-r1', '--preset', 'laptop', '--steps', '2', '-n', '4', '-r', '4', '--plain', '-o', 'outputs'];
const EVALUATE = ['--set', 'evaluation.examples=8', '--set', 'evaluation.every=1', '--set', 'evaluation.rollouts_per_example=1'];

let folder: string;
let view: Served;
let browser: Browser;

beforeAll(async () => {
  if (path === null) return;
  folder = await mkdtemp(join(tmpdir(), 'vf-view-page-'));
  await runCommand('vf-eval', ['search-r1', '-n', '30', '-r', '4', '--plain', '-o', 'outputs'], folder);
  await runCommand(
    'vf-eval',
    ['search-r1', '-n', '8', '-r', '2', '-p', 'embedded', '-a', '{"dataset":"fact-world"}', '--plain', '-o', 'outputs'],
    folder,
  );
  [view, browser] = await Promise.all([serve(join(folder, 'outputs')), openBrowser(path)]);
}, 60_000);
afterAll(async () => {
  if (path === null) return;
  await browser.close();
  await view[Symbol.asyncDispose]();
  await rm(folder, { recursive: true });
});

/** A page at a place; whatever it does that it must not fails the test. */
async function open(hash: string, options: Parameters<typeof watchedPage>[2] = {}): Promise<Page> {
  const { page, problems } = await watchedPage(browser, view.url, options);
  onTestFinished(async () => {
    await page.context().close();
    expect(problems).toEqual([]);
  });
  await page.goto(`${view.url}${hash}`);
  return page;
}

/** The first run in the list whose name holds this. */
async function runOf(page: Page, name: string): Promise<string> {
  const href = await page.locator('.runs-name a', { hasText: name }).first().getAttribute('href');
  return new URLSearchParams(href!.split('?')[1]).get('run')!;
}

const texts = (page: Page, selector: string) => page.locator(selector).allInnerTexts();

describe.skipIf(path === null)('the page of vf-view', () => {
  it('lists runs, filters them while one types, and opens and compares them by keyboard', async () => {
    const page = await open('#/');
    await page.locator('.runs tbody tr').nth(1).waitFor();
    expect(await texts(page, '.runs-reward > span:last-child')).toEqual(expect.arrayContaining([expect.stringMatching(/^\d\.\d{3}$/)]));
    await page.keyboard.press('/');
    await page.keyboard.type('nano');
    await expect.poll(() => page.locator('.runs tbody tr').count()).toBe(1);
    expect(page.url()).toContain('q=nano');
    await page.keyboard.press('Escape');
    await page.keyboard.press('j');
    await page.keyboard.press('Enter');
    await page.getByRole('tab', { name: 'Summary', selected: true }).waitFor();
    await page.getByText('95 % interval').waitFor();
    await page.keyboard.press('Escape');
    await page.locator('.runs tbody tr').nth(1).waitFor();
    for (const key of ['j', 'x', 'j', 'x', 'c']) await page.keyboard.press(key);
    await page.getByText('No row in common').waitFor();
  });

  it('keeps order, filters and columns of a table in the address, and goes back to where one was', async () => {
    const page = await open('#/');
    const run = await runOf(page, 'extractive-baseline');
    await page.goto(`${view.url}#/rollouts?run=${run}&sort=-reward`);
    const rewards = page.locator('.rows [role=row] .cell:nth-child(2)');
    await rewards.first().waitFor();
    expect(await rewards.first().innerText()).toContain('1.000');
    expect(await page.locator('[aria-sort=descending]').innerText()).toContain('reward');
    await page.getByRole('columnheader', { name: 'reward' }).getByRole('link').click();
    await expect.poll(() => rewards.first().innerText()).toContain('0.000');
    await page.getByLabel('Text in prompt, response or answer').fill('wallace');
    await expect.poll(() => page.locator('.filters-count').innerText()).toMatch(/^\d of 120$/);
    await page.getByRole('button', { name: 'Take away: text: wallace' }).waitFor();
    await page.getByText('Columns', { exact: true }).click();
    await page.getByLabel('subem', { exact: true }).check();
    await page.getByRole('columnheader', { name: 'subem' }).waitFor();
    const address = page.url();
    await page.locator('h1').click();
    await page.keyboard.press('j');
    await page.keyboard.press('Enter');
    await page.locator('.turn.by-model').first().waitFor();
    expect(await page.locator('h1').innerText()).toContain('wallace');
    await page.goBack();
    await page.getByRole('columnheader', { name: 'subem' }).waitFor();
    expect(page.url()).toBe(address);
    await page.reload();
    await expect.poll(() => page.locator('.filters-count').innerText()).toMatch(/^\d of 120$/);
  });

  it('shows who wrote what, folds what was found, and moves between the rollouts of a row and of the table', async () => {
    const page = await open('#/');
    const run = await runOf(page, 'extractive-baseline');
    await page.goto(`${view.url}#/rollouts?run=${run}&sort=id`);
    await page.locator('.rows .grid-row').first().click();
    await page.locator('.turn').first().waitFor();
    expect(await texts(page, '.turn-writer')).toEqual(['user', 'model', 'observation', 'model']);
    const observation = page.locator('.turn.by-environment');
    const folded = (await observation.boundingBox())!.height;
    await observation.getByRole('button', { name: /^Show all/ }).click();
    expect((await observation.boundingBox())!.height).toBeGreaterThan(folded * 2);
    const question = await page.locator('h1').innerText();
    await page.keyboard.press('ArrowRight');
    await page.locator('.sibling[aria-current=page] .sibling-index', { hasText: '1' }).waitFor();
    expect(await page.locator('h1').innerText()).toBe(question);
    await page.goBack();
    for (let i = 0; i < 4; i++) await page.keyboard.press('j');
    await expect.poll(() => page.locator('h1').innerText()).not.toBe(question);
  });

  it('colours tokens by surprise, greys those that were given, and says what each is', async () => {
    const page = await open('#/');
    const run = await runOf(page, 'nano-base');
    await page.goto(`${view.url}#/rollouts?run=${run}`);
    await page.locator('.rows .grid-row').first().click();
    await page.locator('.turn').first().waitFor();
    const said = (await page.locator('.turn.by-model .said').first().textContent())!;
    await page.keyboard.press('t');
    await page.locator('[data-token]').first().waitFor();
    expect(page.url()).toContain('show=tokens');
    const sampled = page.locator('.token:not(.given)');
    expect((await sampled.allTextContents()).join('')).toContain(said.trim().slice(0, 20));
    await sampled.first().hover();
    await expect.poll(() => page.locator('.token-facts').innerText()).toMatch(/id \d+[^]*log p (\u2212?\d[^]*) · p \d/);
    await page.locator('.token.given').first().hover();
    await expect.poll(() => page.locator('.token-facts').innerText()).toContain('given');
  });

  it('follows a run while it trains: its curves, its steps and its held-out questions', async () => {
    const page = await open('#/');
    const trained = spawn(process.execPath, [join(import.meta.dirname, '../../../bin/vf-train.js'), ...TRAIN, ...EVALUATE], {
      cwd: folder,
      stdio: 'ignore',
    });
    onTestFinished(() => void trained.kill('SIGKILL'));
    const ended = once(trained, 'exit');
    await page.locator('.runs-name a[href*="curves"]').waitFor({ timeout: 60_000 });
    await page.locator('.runs-name a[href*="curves"]').click();
    const reward = page.locator('.curve').first();
    // The page was there before the run.
    await reward.getByText('step 2', { exact: true }).waitFor({ timeout: 60_000 });
    expect((await ended)[0]).toBe(0);
    await page.locator('.run-state.complete').waitFor();
    expect(await page.locator('.curve-frame').first().getAttribute('aria-label')).toMatch(
      /^reward_mean over steps 0 to 2: training from .* held out from/,
    );
    await page.getByRole('tab', { name: 'Steps' }).click();
    await page.locator('.step-number', { hasText: 'step 2' }).waitFor();
    await page.keyboard.press('ArrowLeft');
    await page.locator('.step-number', { hasText: 'step 1' }).waitFor();
    expect(await page.locator('.group').count()).toBe(4);
    expect(await page.locator('.group-dot').count()).toBe(16);
    await page.keyboard.press('3');
    await page.locator('.side').nth(1).waitFor();
    expect(await texts(page, '.side h3')).toEqual(['Before training', 'After step 2']);
    const first = await page.locator('.split-main .question').innerText();
    await page.keyboard.press('j');
    await expect.poll(() => page.locator('.split-main .question').innerText()).not.toBe(first);
    expect(page.url()).toContain('group=');
  }, 150_000);

  it('fits a phone, shows costs where a run has one, and opens the curves of a training at a link to the run', async () => {
    const page = await open('#/', { viewport: { width: 390, height: 800 } });
    const id = await runOf(page, 'extractive-baseline');
    const file = join(folder, 'outputs', id, 'metadata.json');
    const metadata = JSON.parse(await readFile(file, 'utf8')) as object;
    const figures = { calls: 100_000, cache_hits: 12_345, requests: 87_655, failures: 3, retries: 0 };
    const judge = {
      ...figures,
      models: ['openai/gpt-5-mini-2025-08-07'],
      tokens: { input: 1_234_567, output: 98_765 },
      latency_ms: { p50: 812, p90: 2345, p99: 9000 },
    };
    await writeFile(file, JSON.stringify({ ...metadata, roles: { judge }, cost: { usd: 0.0143 } }));
    await page.reload();
    await page.locator('.runs-cost', { hasText: '$0.0143' }).waitFor();
    const overflow = () => page.evaluate<number>('document.documentElement.scrollWidth - innerWidth');
    expect(await overflow()).toBeLessThanOrEqual(0);
    await page.goto(`${view.url}#/run?run=${id}`);
    await page.getByRole('rowheader', { name: 'judge' }).waitFor();
    await page.locator('.headline-facts', { hasText: '$0.0143' }).waitFor();
    expect(await overflow()).toBeLessThanOrEqual(0);
    await page.goto(`${view.url}#/`);
    const training = (await page.locator('.runs-name a[href*="curves"]').first().getAttribute('href'))!;
    await page.goto(`${view.url}${training.replace('/curves', '/run')}`);
    await page.getByRole('tab', { name: 'Curves', selected: true }).waitFor();
    expect(await overflow()).toBeLessThanOrEqual(0);
  });

  it('lists its keys, switches the colours and remembers them', async () => {
    const page = await open('#/', { colorScheme: 'light' });
    await page.locator('.runs').waitFor();
    await page.keyboard.press('?');
    expect(await page.getByRole('dialog', { name: 'Keys' }).innerText()).toContain('Compare the selected runs');
    await page.keyboard.press('Escape');
    const paper = () => page.evaluate<string>('getComputedStyle(document.documentElement).backgroundColor');
    const light = await paper();
    await page.getByRole('button', { name: 'Auto' }).click();
    await page.getByRole('button', { name: 'Light' }).click();
    await page.getByRole('button', { name: 'Dark' }).waitFor();
    await expect.poll(paper).not.toBe(light);
    const dark = await paper();
    await page.reload();
    await page.getByRole('button', { name: 'Dark' }).waitFor();
    expect(await paper()).toBe(dark);
  });
});
