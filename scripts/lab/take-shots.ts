/** Pictures of the page for the documentation. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import sharp from 'sharp';
import type { LabPage } from './lab-page.ts';

/** Light and dark at the width of a desk, and the width of a phone, as WebP into `folder`. */
export async function takeShots({ page }: LabPage, folder: string): Promise<void> {
  mkdirSync(folder, { recursive: true });
  // A question that the training taught.
  await page.locator('.asked-question:has(.verdict-wrong + .verdict-right)').first().click();
  const shoot = async (name: string, width: number, colorScheme: 'light' | 'dark') => {
    await page.setViewportSize({ width, height: 960 });
    await page.emulateMedia({ colorScheme });
    await page.mouse.move(0, 0);
    // The curves are drawn again after the size and the colours have changed.
    await page.evaluate('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 200))))');
    await sharp(await page.screenshot({ fullPage: true }))
      .webp({ quality: 88 })
      .toFile(join(folder, `${name}.webp`));
  };
  await shoot('lab-light', 1180, 'light');
  await shoot('lab-dark', 1180, 'dark');
  await shoot('lab-phone', 390, 'light');
}
