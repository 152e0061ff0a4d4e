/**
 * Takes the pictures of `vf-view` in docs/images from real runs in a real Chromium: `node --conditions=vf-search-source scripts/view-pictures.ts [FOLDER]`, after `npm run build`. FOLDER
 * has the runs of an earlier call; without one they are made (a training of the nano model and its evaluations before and after, about two minutes).
 */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { type Browser, chromium, type Page } from 'playwright-core';
import sharp from 'sharp';

const root = join(import.meta.dirname, '..');
const FACTS = '{"dataset":"fact-world","topk":3,"max_turns":2,"end_of_turn":"kept"}';

interface Picture {
  readonly name: string;
  readonly hash: string;
  readonly theme: 'light' | 'dark';
  readonly width: number;
  readonly height: number;
  /** Actions of the reader before the picture is taken. */
  readonly act?: (page: Page) => Promise<void>;
}

function command(name: string, args: readonly string[], cwd: string): void {
  execFileSync(process.execPath, [join(root, 'bin', `${name}.js`), ...args], { cwd, stdio: 'inherit' });
}

function makeRuns(folder: string): void {
  const train = ['search-r1', '--preset', 'laptop', '--set', 'evaluation.every=3', '--set', 'evaluation.examples=80', '--plain', '-o', 'outputs'];
  command('vf-train', train, folder);
  const [run] = readdirSync(join(folder, 'outputs/train'));
  const [last] = readdirSync(join(folder, 'outputs/train', run!, 'checkpoints'))
    .toSorted()
    .toReversed();
  const played = ['search-r1', '-n', '40', '-r', '4', '-p', 'embedded', '-a', FACTS, '--plain', '-o', 'outputs'];
  command('vf-eval', played, folder);
  command('vf-eval', [...played, '-m', join('outputs/train', run!, 'checkpoints', last!, 'adapter')], folder);
  command('vf-eval', ['search-r1', '-n', '200', '-r', '4', '--plain', '-o', 'outputs'], folder);
  command('vf-eval', ['visual-rag', '-n', '20', '--plain', '-o', 'outputs'], folder);
}

function picturesOf(folder: string): Picture[] {
  const runs = (kind: string) => readdirSync(join(folder, 'outputs', kind));
  const evaluation = (part: string) => {
    const name = runs('evals').find((one) => one.includes(part))!;
    return `evals/${name}/${readdirSync(join(folder, 'outputs/evals', name))[0]}`;
  };
  const train = `train/${runs('train')[0]}`;
  const [before, after, baseline] = [evaluation('--nano-base'), evaluation('step-0'), evaluation('extractive')];
  const wide = { width: 1360, height: 850 };
  return [
    {
      name: 'curves',
      hash: `#/curves?run=${train}`,
      theme: 'dark',
      ...wide,
      act: (page) =>
        page
          .locator('.curve-frame')
          .first()
          .hover({ position: { x: 250, y: 80 } }),
    },
    { name: 'rollouts', hash: `#/rollouts?run=${baseline}&set=results&sort=-reward`, theme: 'light', ...wide },
    {
      name: 'tokens',
      hash: `#/rollouts?run=${train}&set=evaluation/0&sort=-turns`,
      theme: 'light',
      ...wide,
      act: async (page) => {
        await page.locator('.rows .grid-row').first().click();
        await page.locator('.turn').first().waitFor();
        await page.keyboard.press('t');
        await page.locator('[data-token]').first().waitFor();
        await page.keyboard.press('n');
      },
    },
    {
      name: 'compare',
      hash: `#/compare?run=${before}&run=${after}`,
      theme: 'light',
      ...wide,
      act: (page) => page.locator('.side .turn').nth(3).waitFor(),
    },
    { name: 'phone', hash: `#/held-out?run=${train}`, theme: 'dark', width: 360, height: 740 },
  ];
}

async function take(browser: Browser, base: string, { name, hash, theme, width, height, act }: Picture): Promise<void> {
  const page = await browser.newPage({ viewport: { width, height }, colorScheme: theme, deviceScaleFactor: name === 'phone' ? 2 : 1.3 });
  await page.goto(`${base}${hash}`);
  await page.locator('h1, .turn').first().waitFor();
  await page.waitForLoadState('networkidle');
  await act?.(page);
  const path = join(root, 'docs/images', `view-${name}.webp`);
  const { size } = await sharp(await page.screenshot())
    .webp({ quality: 80 })
    .toFile(path);
  process.stdout.write(`${path}: ${(size / 1000).toFixed(0)} KB\n`);
  await page.close();
}

const given = process.argv[2];
const folder = given ?? mkdtempSync(join(tmpdir(), 'vf-view-pictures-'));
if (given === undefined) makeRuns(folder);
const server = spawn(process.execPath, [join(root, 'bin/vf-view.js'), 'outputs', '--port', '0'], {
  cwd: folder,
  stdio: ['ignore', 'pipe', 'inherit'],
});
const base = (await createInterface({ input: server.stdout })[Symbol.asyncIterator]().next()).value as string;
const browser = await chromium.launch({ executablePath: process.env['VF_CHROMIUM'] ?? '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu'] });
for (const picture of picturesOf(folder)) await take(browser, base, picture);
await browser.close();
server.kill('SIGINT');
await once(server, 'exit');
if (given === undefined) rmSync(folder, { recursive: true });
