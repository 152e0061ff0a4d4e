/** What all tests of the page share: a folder of real runs, the server over it, and a Chromium. */
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { onTestFinished } from 'vitest';
import { CommandHost } from '../../cli/command-host.ts';
import type { Printed } from '../../cli/in-process.ts';
import { openBrowser, serve, type Served, watchedPage } from './watched-page.ts';

type PageOptions = Parameters<typeof watchedPage>[2];

const EVALUATIONS = {
  baseline: ['search-r1', '-n', '20', '-r', '2'],
  embedded: ['search-r1', '-n', '8', '-r', '2', '-p', 'embedded', '-a', '{"dataset":"fact-world"}'],
  pictures: ['visual-rag', '-n', '12'],
} as const;

export class ViewBench {
  readonly #host = new CommandHost();
  #folder = '';
  #view!: Served;
  browser!: Browser;

  async start(chromium: string): Promise<void> {
    this.#folder = await mkdtemp(join(tmpdir(), 'vf-view-page-'));
    await this.evaluate('baseline');
    await this.evaluate('embedded');
    [this.#view, this.browser] = await Promise.all([serve(this.outputs), openBrowser(chromium)]);
  }

  async stop(): Promise<void> {
    await this.#host[Symbol.asyncDispose]();
    await this.browser.close();
    await this.#view[Symbol.asyncDispose]();
    await rm(this.#folder, { recursive: true });
  }

  get outputs(): string {
    return join(this.#folder, 'outputs');
  }

  get url(): string {
    return this.#view.url;
  }

  run(command: string, args: readonly string[]): Promise<Printed> {
    return this.#host.run(command, [...args, '--plain', '-o', 'outputs'], { cwd: this.#folder, env: { HOME: this.#folder } });
  }

  /** Plays an evaluation; the path of its run. */
  async evaluate(name: keyof typeof EVALUATIONS): Promise<string> {
    const { code, stdout, stderr } = await this.run('vf-eval', EVALUATIONS[name]);
    if (code !== 0) throw new Error(`vf-eval ended with ${code}: ${stderr}${stdout}`);
    return this.runOf(name);
  }

  /** The path of an evaluation's run, from `outputs` on. */
  async runOf(name: keyof typeof EVALUATIONS): Promise<string> {
    const parent = { baseline: 'search-r1--extractive-baseline', embedded: 'search-r1--nano-base', pictures: 'visual-rag--boxing-baseline' }[name];
    const [run] = await readdir(join(this.outputs, 'evals', parent));
    return `evals/${parent}/${run}`;
  }

  /** A page at a place; whatever it does that it must not fails the test. */
  async open(hash: string, options: PageOptions = {}): Promise<Page> {
    const page = await this.watched(this.url, options);
    await page.goto(`${this.url}${hash}`);
    return page;
  }

  /** A page that may ask `origin` alone; null: nobody. */
  async watched(origin: string | null, options: PageOptions = {}): Promise<Page> {
    const { page, problems } = await watchedPage(this.browser, origin, options);
    onTestFinished(async () => {
      await page.context().close();
      if (problems.length > 0) throw new Error(`The page did what it must not: ${problems.join('; ')}`);
    });
    return page;
  }
}
