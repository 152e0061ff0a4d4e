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

/** A test that runs out of time disposes of nothing. */
const running = new Set<ChildProcess>();
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

export class CommandHost implements AsyncDisposable {
  readonly #flags: readonly string[];
  #child: ChildProcess | null = null;
  #isBusy = false;

  /** @param flags Of Node. */
  constructor(flags: readonly string[] = []) {
    this.#flags = flags;
  }

  /** Runs `src/cli/<command>.ts` to its end. Rejects where the process itself ends. */
  async run(command: string, args: readonly string[], options: InProcessOptions): Promise<Printed> {
    if (this.#isBusy) await this.#end();
    const child = (this.#child ??= this.#start());
    this.#isBusy = true;
    child.send({ command, args, options } satisfies HostedCommand);
    const over = new AbortController();
    const ended = once(child, 'exit', over).then(([code, signal]) => {
      throw new Error(`The process of ${command} ended with ${String(signal ?? code)}`);
    });
    try {
      const [printed] = (await Promise.race([once(child, 'message', over), ended])) as [Printed];
      this.#isBusy = false;
      return printed;
    } finally {
      ended.catch(() => {});
      over.abort();
    }
  }

  #start(): ChildProcess {
    const stdio = ['ignore', 'inherit', 'inherit', 'ipc'] as const;
    const child = fork(join(import.meta.dirname, 'hosted-commands.ts'), { env: BARE_ENVIRONMENT, execArgv: [...this.#flags], stdio: [...stdio] });
    running.add(child);
    child.once('exit', () => {
      running.delete(child);
      this.#child = null;
      this.#isBusy = false;
    });
    return child;
  }

  /** One that is busy hangs. */
  async #end(): Promise<void> {
    const child = this.#child;
    if (child === null) return;
    const gone = once(child, 'exit');
    if (this.#isBusy) child.kill('SIGKILL');
    else child.disconnect();
    await gone;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#end();
  }
}
