/** The lab in a real Chromium: presses its buttons, reads its figures, takes its download. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Browser, chromium, type Page } from 'playwright-core';

const INSTALL = join(import.meta.dirname, '../chromium/install.sh');

/** Headless, with Debian's Chromium. */
export function openBrowser(): Promise<Browser> {
  const executablePath = execFileSync(INSTALL, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] }).trim();
  // Chromium's sandbox needs rights that root in a container lacks; the page is ours.
  return chromium.launch({ executablePath, args: process.getuid?.() === 0 ? ['--no-sandbox'] : [] });
}

/** More than the lab's preset takes. */
const MOST_STEPS = 99;

export interface LabFigures {
  readonly status: string;
  readonly heldOut: number;
  /** Seconds from the press to the first evaluation at the goal; null if there was none. */
  readonly secondsToGoal: number | null;
}

export class LabPage {
  readonly page: Page;
  /** Requests of the page to servers other than its own. */
  readonly foreign: string[] = [];
  /** Errors of the page. */
  readonly problems: string[] = [];

  private constructor(page: Page, address: string) {
    this.page = page;
    page.on('request', (request) => {
      const url = request.url();
      if (!url.startsWith(address) && !/^(blob|data):/.test(url)) this.foreign.push(url);
    });
    page.on('pageerror', (error) => this.problems.push(String(error)));
    page.on('console', (message) => {
      if (message.type() === 'error') this.problems.push(message.text());
    });
  }

  static async open(browser: Browser, address: string, viewport = { width: 1320, height: 960 }): Promise<LabPage> {
    const page = await browser.newPage({ viewport, acceptDownloads: true });
    const lab = new LabPage(page, address);
    await page.goto(address);
    return lab;
  }

  isIsolated(): Promise<boolean> {
    return this.page.evaluate('crossOriginIsolated');
  }

  async start({ seed, threads }: { readonly seed: number; readonly threads: number }): Promise<void> {
    await this.page.locator('#seed').fill(String(seed));
    if (await this.page.locator('#threads').isEnabled()) await this.page.locator('#threads').selectOption(String(threads));
    await this.page.locator('#start').click();
  }

  /** Presses Stop once the status names a step of this number or a later one: a quick machine takes a step between two looks. */
  async stopAt(step: number, timeoutMs: number): Promise<void> {
    const numbers = Array.from({ length: MOST_STEPS - step + 1 }, (_, i) => step + i);
    await this.page.locator('#status', { hasText: new RegExp(`step (?:${numbers.join('|')})\\b`, 'i') }).waitFor({ timeout: timeoutMs });
    await this.page.locator('#stop').click();
  }

  async ended(timeoutMs: number): Promise<LabFigures> {
    const ends = ['finished', 'stopped', 'failed'].map((status) => `#status[data-status="${status}"]`).join(', ');
    await this.page.locator(ends).waitFor({ timeout: timeoutMs });
    const valueOf = async (id: string) => (await this.page.locator(id).getAttribute('data-value')) ?? '';
    const toGoal = await valueOf('#goal');
    return {
      status: await this.page.locator('#status').innerText(),
      heldOut: Number(await valueOf('#held-out')),
      secondsToGoal: toGoal === '' ? null : Number(toGoal),
    };
  }

  /** The files of the archive that the page gives, by name, and the archive's name. */
  async download(): Promise<{ readonly name: string; readonly files: ReadonlyMap<string, Buffer> }> {
    const [download] = await Promise.all([this.page.waitForEvent('download'), this.page.locator('#save').click()]);
    return { name: download.suggestedFilename(), files: unzipped(readFileSync(await download.path())) };
  }
}

const CENTRAL = 0x02014b50;
const END = 0x06054b50;

/** CPU time of all of Chromium's processes so far, in seconds. On a busy machine it is more meaningful than the clock. */
export async function cpuSeconds(browser: Browser): Promise<number> {
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = await session.send('SystemInfo.getProcessInfo');
  await session.detach();
  return processInfo.reduce((sum, { cpuTime }) => sum + cpuTime, 0);
}

/** Files of an archive that stores them as they are. Reads the directory at its end, as every program does. */
export function unzipped(zip: Buffer): ReadonlyMap<string, Buffer> {
  const end = zip.lastIndexOf(Buffer.from(Uint32Array.of(END).buffer));
  const files = new Map<string, Buffer>();
  let at = zip.readUInt32LE(end + 16);
  for (let left = zip.readUInt16LE(end + 10); left > 0; left--) {
    if (zip.readUInt32LE(at) !== CENTRAL) throw new Error(`No entry of the archive is at byte ${at}`);
    const [bytes, spelled] = [zip.readUInt32LE(at + 20), zip.readUInt16LE(at + 28)];
    const name = zip.toString('utf8', at + 46, at + 46 + spelled);
    const local = zip.readUInt32LE(at + 42);
    const from = local + 30 + zip.readUInt16LE(local + 26) + zip.readUInt16LE(local + 28);
    files.set(name, zip.subarray(from, from + bytes));
    at += 46 + spelled;
  }
  return files;
}
