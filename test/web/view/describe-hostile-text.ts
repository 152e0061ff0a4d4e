/** Text of models, passages and files cannot become anything but text on the page, and no length of it stops the page. */
import { appendFile, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { beforeAll, describe, expect, it } from 'vitest';
import { poisonRun } from './hostile-run.ts';
import type { ViewBench } from './view-bench.ts';

const LONG = 'A very long line without an end. '.repeat(32_000);

/** One more line, whose second turn has a megabyte. */
async function addLongRollout(results: string): Promise<void> {
  const line = JSON.parse((await readFile(results, 'utf8')).split('\n')[0]!) as Record<string, unknown>;
  const parts = { segments: [{ kind: 'model', text: LONG }], completion: [{ role: 'assistant', content: LONG }] };
  await appendFile(results, `${JSON.stringify({ ...line, ...parts, rollout_id: 'long/0', group_id: 'long', rollout_index: 0 })}\n`);
}

/** Elements and attributes that only markup from outside could have brought. In the page's own JavaScript. */
export const STRANGERS = `(() => {
  const found = [];
  for (const element of document.querySelectorAll('*')) {
    const name = element.localName;
    if (['iframe', 'style', 'base', 'object', 'embed', 'template', 'b'].includes(name)) found.push(name);
    if (name === 'script' && element.getAttribute('src') !== 'view.js') found.push('script');
    if (name === 'link' && !['view.css', 'data:,'].includes(element.getAttribute('href'))) found.push('link');
    for (const { name: attribute, value } of element.attributes) {
      if (attribute.startsWith('on')) found.push(attribute);
      if (attribute === 'href' && name === 'a' && !value.startsWith('#')) found.push(value);
      if (attribute === 'src' && name === 'img' && !value.startsWith('api/')) found.push(value);
    }
  }
  return found;
})()`;
const strangers = (page: Page) => page.evaluate<string[]>(STRANGERS);

export function describeHostileText(bench: ViewBench): void {
  let run: string;
  beforeAll(async () => {
    run = await bench.evaluate('pictures');
    const folder = join(bench.outputs, run);
    await poisonRun(folder);
    await addLongRollout(join(folder, 'results.jsonl'));
  });

  describe('hostile text', () => {
    it('stays text on every screen of a run, in both themes and on a narrow one', async () => {
      const page = await bench.open('#/');
      const seen: string[] = [];
      for (const options of [
        { width: 1280, height: 900 },
        { width: 360, height: 740 },
      ]) {
        await page.setViewportSize(options);
        for (const screen of ['', `run?run=${run}`, `rollouts?run=${run}`, `compare?run=${run}&run=${run}`]) {
          await page.goto(`${bench.url}#/${screen}`);
          await page.locator('h1').waitFor();
          await page.locator('.runs, .estimates, .rows .cell a, .side .turn, .state').first().waitFor();
          expect(await strangers(page)).toEqual([]);
          seen.push(await page.locator('body').innerText());
        }
      }
      for (const shown of ['<img src=x onerror=alert(2)>', 'javascript:alert(4)']) expect(seen.join('\n')).toContain(shown);
    });

    it('stays text in every rollout, with what would be unseen as a mark', async () => {
      const page = await bench.open(`#/rollouts?run=${run}&sort=id`);
      await page.locator('.rows .grid-row').first().click();
      let marks = 0;
      const seen: string[] = [];
      for (let i = 0; i < 12; i++) {
        await page.locator('.turn').first().waitFor();
        await page.evaluate(`document.querySelectorAll('.fold-button, .info summary, .asked summary').forEach((button) => button.click())`);
        expect(await strangers(page)).toEqual([]);
        marks += await page.locator('.mark', { hasText: 'U+202E' }).count();
        seen.push(await page.locator('main').innerText());
        const address = page.url();
        await page.keyboard.press('j');
        await expect.poll(() => page.url()).not.toBe(address);
      }
      expect(marks).toBeGreaterThan(0);
      for (const shown of ['<script>alert(1)</script>', '</script><script src="https://evil.example/x.js"></script>', '&lt;b&gt;bold'])
        expect(seen.join('\n')).toContain(shown);
      expect(seen.join('\n')).not.toContain('\u202e');
    });

    it('of a megabyte is cut until one asks for all of it', async () => {
      const page = await bench.open(`#/rollout?run=${run}&set=results&group=long&index=0`);
      const turn = page.locator('.turn.by-model').first();
      await turn.waitFor();
      expect((await turn.textContent())!.length).toBeLessThan(25_000);
      await turn.getByRole('button', { name: 'Show all 1,056,000 characters' }).click();
      await expect.poll(async () => (await turn.locator('.said').textContent())!.length).toBe(LONG.length);
      expect(await page.evaluate<boolean>('document.documentElement.scrollWidth <= innerWidth')).toBe(true);
    });
  });
}
