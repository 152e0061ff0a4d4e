/** What the page of `vf-view` shows, and how one moves in it. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { describe, expect, it } from 'vitest';
import type { ViewBench } from './view-bench.ts';

const TRAIN = ['search-r1', '--preset', 'laptop', '--steps', '2', '-n', '2', '-r', '2'];
const EVALUATE = ['--set', 'evaluation.examples=2', '--set', 'evaluation.every=1', '--set', 'evaluation.rollouts_per_example=1'];

/** The first run in the list whose name holds this. */
async function runOf(page: Page, name: string): Promise<string> {
  const href = await page.locator('.runs-name a', { hasText: name }).first().getAttribute('href');
  return new URLSearchParams(href!.split('?')[1]).get('run')!;
}

const texts = (page: Page, selector: string) => page.locator(selector).allInnerTexts();

export function describePage(bench: ViewBench): void {
  describe('the page', () => {
    it('lists runs, filters them while one types, and opens and compares them by keyboard', async () => {
      const page = await bench.open('#/');
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
      const page = await bench.open('#/');
      const run = await runOf(page, 'extractive-baseline');
      await page.goto(`${bench.url}#/rollouts?run=${run}&sort=-reward`);
      const rewards = page.locator('.rows [role=row] .cell:nth-child(2)');
      await rewards.first().waitFor();
      expect(await rewards.first().innerText()).toContain('1.000');
      expect(await page.locator('[aria-sort=descending]').innerText()).toContain('reward');
      await page.getByRole('columnheader', { name: 'reward' }).getByRole('link').click();
      await expect.poll(() => rewards.first().innerText()).toContain('0.000');
      await page.getByLabel('Text in prompt, response or answer').fill('wallace');
      await expect.poll(() => page.locator('.filters-count').innerText()).toMatch(/^\d of 40$/);
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
      await expect.poll(() => page.locator('.filters-count').innerText()).toMatch(/^\d of 40$/);
    });

    it('shows who wrote what, folds what was found, and moves between the rollouts of a row and of the table', async () => {
      const page = await bench.open('#/');
      const run = await runOf(page, 'extractive-baseline');
      await page.goto(`${bench.url}#/rollouts?run=${run}&sort=id`);
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
      for (let i = 0; i < 2; i++) await page.keyboard.press('j');
      await expect.poll(() => page.locator('h1').innerText()).not.toBe(question);
    });

    it('folds the thoughts that a server returned outside the text, and says of a run how many stop strings were guessed', async () => {
      const page = await bench.open('#/');
      const run = await runOf(page, 'extractive-baseline');
      const file = join(bench.outputs, run, 'results.jsonl');
      const [first, ...lines] = (await readFile(file, 'utf8')).split('\n');
      const rollout = JSON.parse(first!) as { group_id: string; segments: object[]; guessed_stops?: number };
      rollout.segments = rollout.segments.map((segment, i) => (i === 0 ? { ...segment, reasoning: 'Where did I read\n<b>this</b>?' } : segment));
      await writeFile(file, [JSON.stringify({ ...rollout, guessed_stops: 1 }), ...lines].join('\n'));
      await page.goto(`${bench.url}#/rollout?run=${run}&set=results&group=${rollout.group_id}&index=0`);
      const thoughts = page.locator('.turn.by-model .thoughts');
      await thoughts.getByText('Thoughts, 2 lines').waitFor();
      expect(await thoughts.count()).toBe(1);
      expect(await thoughts.locator('.said').isVisible()).toBe(false);
      await page.keyboard.press('Tab');
      await thoughts.locator('summary').press('Enter');
      expect(await thoughts.locator('.said').innerText()).toBe('Where did I read\n<b>this</b>?');
      await page.goto(`${bench.url}#/run?run=${run}`);
      await page.locator('.notice', { hasText: /^1 of \d+ turns: .* guessed/ }).waitFor();
    });

    it('colours tokens by surprise, greys those that were given, and says what each is', async () => {
      const page = await bench.open('#/');
      const run = await runOf(page, 'nano-base');
      await page.goto(`${bench.url}#/rollouts?run=${run}`);
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
      const page = await bench.open('#/');
      const ended = bench.run('vf-train', [...TRAIN, ...EVALUATE]);
      await page.locator('.runs-name a[href*="curves"]').waitFor();
      await page.locator('.runs-name a[href*="curves"]').click();
      const reward = page.locator('.curve').first();
      // The page was there before the run.
      await reward.getByText('step 2', { exact: true }).waitFor();
      expect((await ended).code).toBe(0);
      await page.locator('.run-state.complete').waitFor();
      expect(await page.locator('.curve-frame').first().getAttribute('aria-label')).toMatch(
        /^reward_mean over steps 0 to 2: training from .* held out from/,
      );
      await page.getByRole('tab', { name: 'Steps' }).click();
      await page.locator('.step-number', { hasText: 'step 2' }).waitFor();
      await page.keyboard.press('ArrowLeft');
      await page.locator('.step-number', { hasText: 'step 1' }).waitFor();
      expect(await page.locator('.group').count()).toBe(2);
      expect(await page.locator('.group-dot').count()).toBe(4);
      await page.keyboard.press('3');
      await page.locator('.side').nth(1).waitFor();
      expect(await texts(page, '.side h3')).toEqual(['Before training', 'After step 2']);
      const first = await page.locator('.split-main .question').innerText();
      await page.keyboard.press('j');
      await expect.poll(() => page.locator('.split-main .question').innerText()).not.toBe(first);
      expect(page.url()).toContain('group=');
    });

    it('fits a phone, shows costs where a run has one, and opens the curves of a training at a link to the run', async () => {
      const page = await bench.open('#/', { viewport: { width: 390, height: 800 } });
      const id = await runOf(page, 'extractive-baseline');
      const file = join(bench.outputs, id, 'metadata.json');
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
      await page.goto(`${bench.url}#/run?run=${id}`);
      await page.getByRole('rowheader', { name: 'judge' }).waitFor();
      await page.locator('.headline-facts', { hasText: '$0.0143' }).waitFor();
      expect(await overflow()).toBeLessThanOrEqual(0);
      await page.goto(`${bench.url}#/`);
      const training = (await page.locator('.runs-name a[href*="curves"]').first().getAttribute('href'))!;
      await page.goto(`${bench.url}${training.replace('/curves', '/run')}`);
      await page.getByRole('tab', { name: 'Curves', selected: true }).waitFor();
      expect(await overflow()).toBeLessThanOrEqual(0);
    });

    it('lists its keys, switches the colours and remembers them', async () => {
      const page = await bench.open('#/', { colorScheme: 'light' });
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
}
