/** Trainings laid over each other: one chart for many runs, seeds as one, live, in the exported file, and with names that try to break out. */
import { appendFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Page } from 'playwright-core';
import { beforeAll, describe, expect, it } from 'vitest';
import { FAINT, FAULTS } from './describe-access.ts';
import { STRANGERS } from './describe-hostile-text.ts';
import { addSteps, writeTraining } from './overlay-runs.ts';
import type { ViewBench } from './view-bench.ts';
import { runCommand } from './watched-page.ts';

const HOSTILE = '<img src=x onerror=alert(1)> \u202egnp.exe "><svg onload=alert(2)>';

export function describeOverlay(bench: ViewBench): void {
  let seeds: string[];
  let others: string[];

  const place = (runs: readonly string[], more = '') => `#/compare?${runs.map((run) => `run=${run}`).join('&')}${more}`;
  const labels = (page: Page) => page.locator('.overlay-legend tbody th').allInnerTexts();
  const chart = (page: Page) => page.locator('.curve-frame').first();
  const drawn = async (page: Page) => (await chart(page).getAttribute('aria-label'))!;

  describe('trainings laid over each other', () => {
    beforeAll(async () => {
      const { outputs } = bench;
      seeds = [1, 2, 3].map((seed) => writeTraining(outputs, `slow--${seed}`, { name: null, seed, reward: 0.2 + seed / 10 }));
      others = [
        writeTraining(outputs, 'fast--1', { name: null, lr: 5e-4, reward: 0.9 }),
        writeTraining(outputs, 'hostile--1', { name: HOSTILE, lr: 2e-4, more: { 'rubric/<b>own</b>': 3 } }),
        writeTraining(outputs, 'empty--1', { name: 'not begun', steps: 0, isFinished: false }),
        writeTraining(outputs, 'damaged--1', { name: 'damaged', lr: 3e-4 }),
      ];
      await appendFile(
        join(outputs, 'train/damaged--1/metrics.jsonl'),
        '{"kind": "step", "step": 9, "reward_\nnull\n[]\n{"kind":"step","step":5,"reward_mean":"high"}\n',
      );
    });

    it('are chosen in the list by keys, and come in one chart with names by the settings that differ', async () => {
      const page = await bench.open('#/?q=overlaid+slow');
      await page.locator('.runs tbody tr').nth(2).waitFor();
      expect(await page.locator('.runs tbody tr', { hasText: 'lr 1e-4, seed 2' }).count()).toBe(1);
      await page.goto(`${bench.url}#/?q=overlaid-nobody+--1`);
      await page.goto(`${bench.url}${place([seeds[0]!, others[0]!])}`);
      await page.locator('.overlay-legend tbody tr').nth(1).waitFor();
      await page.keyboard.press('Escape');
      await page.locator('.runs tbody tr').first().waitFor();
      await page.getByLabel('Filter the runs').fill('overlaid nobody');
      await page.keyboard.press('Escape');
      for (const key of ['j', 'x', 'j', 'x', 'c']) await page.keyboard.press(key);
      await page.getByRole('heading', { name: 'Trainings' }).waitFor();
      expect(page.url()).toMatch(/compare\?run=train\/[^&]+&run=train\/[^&]+$/);
    });

    it('show last and best held-out reward with intervals, the settings that differ, and seeds as a mean or one by one', async () => {
      const page = await bench.open(place([...seeds, others[0]!]));
      await expect
        .poll(() => labels(page))
        .toEqual([expect.stringMatching(/^A\s+lr 1e-4, 3 seeds\s+seed 1\s+seed 2\s+seed 3$/), expect.stringMatching(/^B\s+lr 5e-4$/)]);
      const cells = (row: number) => page.locator('.overlay-legend tbody tr').nth(row).locator('td.number').allInnerTexts();
      // Of 0.3, 0.4 and 0.5: Student's t with two degrees of freedom, 4.303 × 0.1 / √3.
      await expect.poll(() => cells(0)).toEqual(['0.000', '0.400 step 4', '0.152 to 0.648', '0.400 step 4', '0.152 to 0.648']);
      expect(await cells(1)).toEqual(['0.000', '0.900 step 4', '0.800 to 1.000', '0.900 step 4', '0.800 to 1.000']);
      expect(await drawn(page)).toMatch(
        /^reward_mean over steps 0 to 4: A lr 1e-4, 3 seeds, training, from 0\.100 to 0\.400; B lr 5e-4, training, .*held out/,
      );
      expect(await page.locator('.overlay-settings tbody tr').allInnerTexts()).toEqual([
        expect.stringMatching(/^optimizer\.learning_rate\s+1e-4\s+1e-4\s+1e-4\s+5e-4$/),
        expect.stringMatching(/^seed\s+1\s+2\s+3\s+0$/),
      ]);
      await page.keyboard.press('s');
      await expect.poll(() => labels(page)).toHaveLength(4);
      expect(page.url()).toContain('seeds=single');
      expect((await labels(page))[1]).toMatch(/lr 1e-4, seed 2/);
      await page.getByLabel('Show lr 1e-4, seed 2').uncheck();
      await page.getByRole('button', { name: 'Held out', exact: true }).click();
      await expect.poll(() => drawn(page)).not.toMatch(/training|seed 2/);
      await page.reload();
      await page.locator('.overlay-legend').waitFor();
      expect(await page.getByLabel('Show lr 1e-4, seed 2').isChecked()).toBe(false);
      await expect.poll(() => drawn(page)).toMatch(/held out/);
      expect(await drawn(page)).not.toMatch(/training|seed 2/);
    });

    it('follow a run that is being written, next to one without metrics, a damaged one, one with other metrics and one that is gone', async () => {
      const live = writeTraining(bench.outputs, 'live--1', { name: 'live', lr: 9e-4, steps: 2, isFinished: false });
      const page = await bench.open(place([...others, live, 'train/gone--1']));
      await expect.poll(() => drawn(page)).toMatch(/over steps 0 to 4/);
      await page.getByText('train/gone--1 is not among the runs.').waitFor();
      await page.locator('.overlay-legend tr', { hasText: 'not begun' }).getByText('no metrics yet').waitFor();
      await page.locator('.overlay-legend tr', { hasText: 'damaged' }).getByText('0.500 step 4').first().waitFor();
      addSteps(bench.outputs, 'live--1', { from: 3, to: 6, reward: () => 0.75 });
      await expect.poll(() => drawn(page), { timeout: 20_000 }).toMatch(/over steps 0 to 6.*live, held out, from 0 to 0\.750/);
      await page.locator('.overlay-legend tr', { hasText: 'live' }).getByText('0.750 step 6').first().waitFor();
      await page.keyboard.press('/');
      await page.keyboard.type('own');
      await page.getByLabel(/<b>own<\/b>/).check();
      const own = page.locator('.curve', { hasText: 'rubric/<b>own</b>' });
      await own.waitFor();
      expect(await own.locator('.overlay-values li').count()).toBe(1);
      expect(page.url()).toContain('metrics=');
    });

    it('say in one line that trainings of other environments cannot be compared', async () => {
      const apart = [1, 2].map((at) => writeTraining(bench.outputs, `apart--${at}`, { name: `apart ${at}`, environment: 'other' }));
      const page = await bench.open(place([seeds[0]!, ...apart], '&seeds=single'));
      const said = page.getByText(/^Not comparable: A is evaluated on overlaid and B on other, .* The same holds for 1 more\.$/);
      await said.waitFor();
      expect(await page.locator('.compare .problem').count()).toBe(1);
    });

    /** In the legend, the charts and the title, with a mark where the text would turn around. */
    async function expectText(page: Page): Promise<void> {
      await page.locator('.overlay-legend .mark', { hasText: 'U+202E' }).waitFor();
      await expect.poll(() => drawn(page)).toContain('<img src=x onerror=alert(1)>');
      expect(await page.evaluate('document.querySelectorAll("main img, main svg[onload]").length')).toBe(0);
      expect(await page.locator('main').innerText()).not.toContain('\u202e');
      expect(await page.title()).not.toContain('\u202e');
    }

    it('show a hostile name as text, in the list, the legend and the charts', async () => {
      const page = await bench.open('#/?q=gnp');
      await page.locator('.runs .mark', { hasText: 'U+202E' }).waitFor();
      expect(await page.evaluate(STRANGERS)).toEqual([]);
      await page.goto(`${bench.url}${place([seeds[0]!, others[1]!])}`);
      await expectText(page);
      expect(await page.evaluate(STRANGERS)).toEqual([]);
    });

    it('come in a file without a server, which holds the same', async () => {
      const file = join(bench.outputs, 'trainings.html');
      await runCommand('vf-view', ['train', '--export', file], bench.outputs);
      const page = await bench.watched(null, { offline: true });
      await page.goto(`${pathToFileURL(file).href}${place([seeds[0]!, seeds[1]!, others[1]!].map((run) => run.replace('train/', '')))}`);
      await expectText(page);
      expect((await labels(page))[0]).toContain('2 seeds');
    });

    it.each(['light', 'dark'] as const)('are for everybody: names, contrast on %s, and room on a phone', async (colorScheme) => {
      const page = await bench.open(place([...seeds, ...others]), { colorScheme, viewport: { width: 360, height: 740 } });
      await page.locator('.overlay-settings').waitFor();
      await expect.poll(() => drawn(page)).toMatch(/steps 0 to 4/);
      expect(await page.evaluate(FAULTS)).toEqual([]);
      expect(await page.evaluate(FAINT)).toEqual([]);
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(360);
    });

    it('compare the rows of last evaluations at a switch, and a training with an evaluation as before', async () => {
      const baseline = await bench.runOf('baseline');
      const page = await bench.open(place([seeds[0]!, seeds[1]!]));
      await page.getByRole('button', { name: 'Held-out questions' }).click();
      await page.getByText('has no rollouts on file').waitFor();
      expect(page.url()).toContain('view=rows');
      await page.goto(`${bench.url}${place([baseline, seeds[0]!])}`);
      await page.getByText(`${seeds[0]} has no rollouts on file`).waitFor();
    });
  });
}
