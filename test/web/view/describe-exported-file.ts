/** The file that `vf-view --export` writes, opened from disk: it shows what the server would, and asks nobody. */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Page } from 'playwright-core';
import { beforeAll, describe, expect, it } from 'vitest';
import type { ViewBench } from './view-bench.ts';
import { runCommand } from './watched-page.ts';

/** After `describeHostileText`, which wrote the texts that are exported here. */
export function describeExportedFile(bench: ViewBench): void {
  const file = () => join(bench.outputs, 'runs.html');
  beforeAll(async () => void (await runCommand('vf-view', ['evals', '--export', file()], bench.outputs)));

  /** Any request but the one for the file fails the test, and so does all else that `watchedPage` notes. */
  async function open(): Promise<Page> {
    const page = await bench.watched(null, { offline: true });
    await page.goto(pathToFileURL(file()).href);
    return page;
  }

  describe('an exported file', () => {
    it('opens from disk with its table, filters, transcripts and tokens', async () => {
      const page = await open();
      await page.locator('.runs-name a', { hasText: 'nano-base' }).click();
      await page.getByRole('tab', { name: 'Rollouts' }).click();
      await page.locator('.rows .cell a').first().waitFor();
      expect(await page.locator('.filters-count').innerText()).toBe('16');
      await page.getByLabel('Text in prompt, response or answer').fill('Trafam');
      await expect.poll(() => page.locator('.filters-count').innerText()).toMatch(/^\d of 16$/);
      await page.getByRole('columnheader', { name: 'tokens' }).getByRole('link').click();
      const counts = async () => (await page.locator('.rows [role=row] .cell:nth-child(4)').allInnerTexts()).map(Number);
      await expect.poll(async () => (await counts()).join(' ')).toBe((await counts()).toSorted((a, b) => b - a).join(' '));
      await page.locator('.rows .grid-row').first().click();
      await page.locator('.turn.by-model').first().waitFor();
      await page.keyboard.press('t');
      await page.locator('.token:not(.given)').first().waitFor();
      await page.goBack();
      await page.reload();
      await page.locator('.turn, .rows .cell a').first().waitFor();
    });

    it('runs no script of a text that it holds', async () => {
      const page = await open();
      await page.locator('.runs-name a', { hasText: '<img src=x onerror=alert(2)>' }).click();
      await page.locator('.estimates').waitFor();
      await page.getByRole('tab', { name: 'Rollouts' }).click();
      await page.locator('.rows .grid-row').first().click();
      await page.locator('.turn').first().waitFor();
      expect(await page.evaluate('document.scripts.length')).toBe(2);
      expect(await page.locator('main').innerText()).toContain('alert(');
    });
  });
}
