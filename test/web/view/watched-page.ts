/** A real Chromium over the real `vf-view`: pages that note everything a page must not do. */
import { execFile, execFileSync, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';

const root = join(import.meta.dirname, '../../..');

/** Null where no Chromium is here: then the tests are skipped, unless VF_REQUIRE_CHROMIUM asks for them. */
export function chromiumPath(): string | null {
  const names = [process.env['VF_CHROMIUM'], 'chromium', 'chromium-browser', 'google-chrome'].filter((name) => name !== undefined);
  for (const name of names) {
    try {
      return existsSync(name) ? name : execFileSync('sh', ['-c', 'command -v "$1"', 'sh', name], { encoding: 'utf8' }).trim();
    } catch {
      // The next name may be the one.
    }
  }
  if (process.env['VF_REQUIRE_CHROMIUM'] === '1') throw new Error('No Chromium is here. Run scripts/chromium/install.sh.');
  return null;
}

export function openBrowser(path: string): Promise<Browser> {
  return chromium.launch({ executablePath: path, args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'] });
}

/** Runs a command of the package to its end, in `folder`. */
export async function runCommand(command: string, args: readonly string[], folder: string): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, [join(root, 'bin', `${command}.js`), ...args], { cwd: folder });
  return stdout;
}

export interface Served extends AsyncDisposable {
  readonly url: string;
}

/** Starts `vf-view` over a folder, on a free port. */
export async function serve(folder: string, args: readonly string[] = []): Promise<Served> {
  const child = spawn(process.execPath, [join(root, 'bin/vf-view.js'), folder, '--port', '0', ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const first = await lines.next();
  if (first.done === true) throw new Error('vf-view ended before it printed its address.');
  return {
    url: first.value,
    [Symbol.asyncDispose]: async () => {
      child.kill('SIGINT');
      await ended;
    },
  };
}

export interface WatchedPage {
  readonly page: Page;
  /** Errors of scripts and console, violations of the policy, dialogs, and requests to anywhere but `origin`. Empty is as it should be. */
  readonly problems: string[];
}

/** @param origin What may be asked; null: nothing at all but the page itself. */
export async function watchedPage(browser: Browser, origin: string | null, options: BrowserContextOptions = {}): Promise<WatchedPage> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  const problems: string[] = [];
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') problems.push(`console: ${message.text()}`);
  });
  page.on('pageerror', (error) => problems.push(`script: ${error.message}`));
  page.on('dialog', (dialog) => {
    problems.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on('popup', () => problems.push('a window was opened'));
  page.on('request', (request) => {
    const isData = request.url().startsWith('data:');
    const isAllowed = origin === null ? request.isNavigationRequest() && request.url().startsWith('file:') : request.url().startsWith(origin);
    if (!isData && !isAllowed) problems.push(`request: ${request.url()}`);
  });
  await page.exposeFunction('noteViolation', (text: string) => void problems.push(`policy: ${text}`));
  await page.addInitScript(`addEventListener('securitypolicyviolation', (e) => noteViolation(e.violatedDirective + ' ' + e.blockedURI), true);`);
  return { page, problems };
}
