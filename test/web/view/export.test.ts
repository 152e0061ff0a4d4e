/** The file that `vf-view --export` writes, opened from disk in a real Chromium: it shows what the server would, and asks nobody. */
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { poisonRun } from './hostile-run.ts';
import { chromiumPath, openBrowser, runCommand, watchedPage } from './watched-page.ts';

const path = chromiumPath();

let folder: string;
let browser: Browser;

beforeAll(async () => {
  if (path === null) return;
  folder = await mkdtemp(join(tmpdir(), 'vf-view-export-'));
  await runCommand(
    'vf-eval',
    ['search-r1', '-n', '8', '-r', '2', '-p', 'embedded', '-a', '{"dataset":"fact-world"}', '--plain', '-o', 'outputs'],
    folder,
  );
  await runCommand('vf-eval', ['visual-rag', '-n', '6', '--plain', '-o', 'outputs'], folder);
  const parent = join(folder, 'outputs/evals/visual-rag--boxing-baseline');
  await poisonRun(join(parent, (await readdir(parent))[0]!));
  await runCommand('vf-view', ['outputs', '--export', 'runs.html'], folder);
  browser = await openBrowser(path);
}, 60_000);
afterAll(async () => {
  if (path === null) return;
  await browser.close();
  await rm(folder, { recursive: true });
});

/** Any request but the one for the file fails the test, and so does all else that `watchedPage` notes. */
async function open(): Promise<Page> {
  const { page, problems } = await watchedPage(browser, null, { offline: true });
  onTestFinished(async () => {
    await page.context().close();
    expect(problems).toEqual([]);
  });
  await page.goto(pathToFileURL(join(folder, 'runs.html')).href);
  return page;
}

describe.skipIf(path === null)('an exported file', () => {
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
