/**
 * A process that runs command after command, so that their modules are loaded once for all tests of a file. It is not the process of the tests: a command that hangs in
 * a system call, or takes all memory, fails its own test alone, and the next one gets a new process.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { BARE_ENVIRONMENT } from '../bare-environment.ts';
import type { InProcessOptions, Printed } from './in-process.ts';

export interface HostedCommand {
  readonly command: string;
  readonly args: readonly string[];
  readonly options: InProcessOptions;
}

export class CommandHost implements AsyncDisposable {
  #child: ChildProcess | null = null;
  #isBusy = false;

  constructor() {
    process.on('exit', () => this.#child?.kill('SIGKILL'));
  }

  /** Runs `src/cli/<command>.ts` to its end. Rejects where the process itself ends. */
  async run(command: string, args: readonly string[], options: InProcessOptions): Promise<Printed> {
    if (this.#isBusy) await this.#kill();
    this.#child ??= fork(join(import.meta.dirname, 'hosted-commands.ts'), {
      env: BARE_ENVIRONMENT,
      execArgv: [],
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    const child = this.#child;
    this.#isBusy = true;
    const over = new AbortController();
    const ended = once(child, 'exit', over).then(([code, signal]) => {
      this.#child = null;
      this.#isBusy = false;
      throw new Error(`The process of ${command} ended with ${String(signal ?? code)}`);
    });
    child.send({ command, args, options } satisfies HostedCommand);
    try {
      const [printed] = (await Promise.race([once(child, 'message', over), ended])) as [Printed];
      this.#isBusy = false;
      return printed;
    } finally {
      ended.catch(() => {});
      over.abort();
    }
  }

  async #kill(): Promise<void> {
    const child = this.#child;
    if (child === null) return;
    const gone = once(child, 'exit');
    child.kill('SIGKILL');
    await gone;
    this.#child = null;
    this.#isBusy = false;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#isBusy) return this.#kill();
    const child = this.#child;
    if (child === null) return;
    const gone = once(child, 'exit');
    child.disconnect();
    await gone;
  }
}
