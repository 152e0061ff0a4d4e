/** What everybody needs to use the page: names, order, contrast, room on a narrow screen. */
import type { Page } from 'playwright-core';
import { beforeAll, describe, expect, it } from 'vitest';
import type { ViewBench } from './view-bench.ts';

/** Faults in names and structure, in the page's own JavaScript. */
export const FAULTS = `(() => {
  const faults = [];
  const ids = [...document.querySelectorAll('[id]')].map((e) => e.id);
  for (const id of new Set(ids)) if (ids.filter((one) => one === id).length > 1) faults.push('two elements have the id ' + id);
  const nameOf = (e) => e.getAttribute('aria-label') || e.labels?.[0]?.textContent || e.textContent.trim() || e.title || e.alt || '';
  for (const e of document.querySelectorAll('a, button, input, select, summary, img, dialog')) if (nameOf(e).trim() === '') faults.push('no name: ' + e.outerHTML.slice(0, 120));
  for (const e of document.querySelectorAll('[role=grid]')) if (!e.getAttribute('aria-rowcount') || e.querySelectorAll('[role=columnheader]').length === 0) faults.push('grid');
  for (const e of document.querySelectorAll('[role=row]')) if (!['grid', 'rowgroup'].includes(e.parentElement.closest('[role]:not([role=presentation])').getAttribute('role'))) faults.push('row outside of a group');
  for (const e of document.querySelectorAll('[role=tablist]')) if (e.querySelectorAll('[role=tab][aria-selected=true]').length !== 1) faults.push('tablist');
  for (const name of ['aria-labelledby', 'aria-describedby', 'aria-activedescendant', 'aria-controls'])
    for (const e of document.querySelectorAll('[' + name + ']')) if (!document.getElementById(e.getAttribute(name))) faults.push(name + ' names nothing');
  if (document.querySelectorAll('h1').length !== 1) faults.push('not one h1');
  if (document.querySelectorAll('main').length !== 1) faults.push('not one main');
  return faults;
})()`;

/** Texts whose contrast with what is behind them is below 4.5 (WCAG AA), in the page's own JavaScript; a canvas turns any colour into bytes. */
export const FAINT = `(() => {
  const context = Object.assign(document.createElement('canvas'), { width: 1, height: 1 }).getContext('2d', { willReadFrequently: true });
  const paint = (colours) => {
    context.clearRect(0, 0, 1, 1);
    for (const colour of colours) { context.fillStyle = colour; context.fillRect(0, 0, 1, 1); }
    return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = (bytes) => { const [r, g, b] = bytes.map((v) => ((v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const faint = new Map();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const e = node.parentElement;
    if (node.data.trim() === '' || !e.checkVisibility() || e.closest('.hidden, .skip, option, :disabled, noscript')) continue;
    const behind = [];
    for (let up = e; up; up = up.parentElement) behind.unshift(getComputedStyle(up).backgroundColor);
    const back = paint(behind);
    const text = paint([...behind, getComputedStyle(e).color]);
    const [a, b] = [light(back), light(text)].toSorted((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) faint.set(e.className + ' ' + e.localName, node.data.trim().slice(0, 30) + ': ' + ratio.toFixed(2));
  }
  return [...faint].map(([where, what]) => where + ': ' + what);
})()`;

export function describeAccess(bench: ViewBench): void {
  let places: string[];
  beforeAll(async () => {
    const run = await bench.runOf('baseline');
    const place = `run=${run}&set=results&group=nq_dev_0012&index=0`;
    places = ['', `run?run=${run}`, `rollouts?run=${run}&set=results&failed=false`, `compare?run=${run}&run=${run}`];
    places.push(`rollout?${place}`, `rollout?${place}&show=tokens`);
  });

  async function eachPlace(options: Parameters<ViewBench['open']>[1], look: (page: Page, place: string) => Promise<void>): Promise<void> {
    const page = await bench.watched(bench.url, options);
    for (const place of places) {
      await page.goto(`${bench.url}#/${place}`);
      await page.locator('.runs tbody tr, .estimates, .rows .cell a, .side .turn, .rollout .turn, [data-token]').first().waitFor();
      await look(page, place);
    }
  }

  describe('everybody', () => {
    it('finds a name on everything that can be used, one heading, and rows and tabs where they belong', async () => {
      await eachPlace({}, async (page, place) => expect({ place, faults: await page.evaluate(FAULTS) }).toEqual({ place, faults: [] }));
    });

    it.each(['light', 'dark'] as const)('reads every text on %s', async (colorScheme) => {
      await eachPlace({ colorScheme }, async (page, place) => expect({ place, faint: await page.evaluate(FAINT) }).toEqual({ place, faint: [] }));
    });

    it('needs no scrolling sideways at 360 pixels', async () => {
      await eachPlace({ viewport: { width: 360, height: 740 } }, async (page, place) =>
        expect({ place, width: await page.evaluate('document.documentElement.scrollWidth') }).toEqual({ place, width: 360 }),
      );
    });

    it('sees where the focus is, and reaches the content without the header', async () => {
      const page = await bench.open('');
      await page.locator('.runs').waitFor();
      await page.keyboard.press('Tab');
      expect(await page.locator(':focus').innerText()).toBe('Skip to the content');
      await page.keyboard.press('Enter');
      await page.keyboard.press('Tab');
      expect(await page.evaluate('document.activeElement.closest("main") !== null')).toBe(true);
      expect(await page.evaluate('getComputedStyle(document.activeElement).outlineStyle')).toBe('solid');
    });
  });
}
