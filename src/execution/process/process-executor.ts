/** A new Python process for each job: in bubblewrap's namespaces, or with limits only. */
import { existsSync } from 'node:fs';
import { eitherSignal } from '../../core/abort.ts';
import { CancelledError, ExecutionError } from '../../core/errors.ts';
import { Limiter, type Turn } from '../../core/limiter.ts';
import type { AnalyseOptions, CodeExecutor, CodeFacts, ExecutionJob, ExecutionResult, ExecutorCapabilities } from '../code-executor.ts';
import { ANALYSIS_LIMITS, DEFAULT_LIMITS } from '../code-executor.ts';
import { type PythonSources, readPythonSources } from '../python-sources.ts';
import type { Attempt, RunMode } from '../attempt.ts';
import { runJob } from '../run-job.ts';
import { ANALYSIS_REPLY_BYTES, analysisFields, jobFields, readFacts, replyBytes } from '../runner-messages.ts';
import { bareCommand, bubblewrapCommand, type SandboxCommand } from './sandbox-command.ts';
import { runProcess } from './sandboxed-process.ts';

export const BUBBLEWRAP = '/usr/bin/bwrap';
const PYTHON = '/usr/bin/python3';

export interface ProcessOptions {
  readonly name: 'bubblewrap' | 'none';
  /** Processes at the same time. */
  readonly workers: number;
  /** Absolute path. @default /usr/bin/python3 */
  readonly python?: string;
}

const VERSION = "import sys\ndef f(): return '.'.join(map(str, sys.version_info[:3]))";

interface Place {
  readonly mode: RunMode;
  readonly signal: AbortSignal;
  readonly turn: Turn | null | undefined;
}

export class ProcessExecutor implements CodeExecutor {
  readonly capabilities: ExecutorCapabilities;
  readonly #sandbox: SandboxCommand;
  readonly #runner: PythonSources;
  readonly #analyst: PythonSources;
  readonly #limiter: Limiter;
  readonly #closed = new AbortController();

  private constructor(
    capabilities: ExecutorCapabilities,
    parts: { sandbox: SandboxCommand; runner: PythonSources; analyst: PythonSources; workers: number },
  ) {
    this.capabilities = capabilities;
    this.#sandbox = parts.sandbox;
    this.#runner = parts.runner;
    this.#analyst = parts.analyst;
    this.#limiter = new Limiter(parts.workers);
  }

  /** Throws ExecutionError, with the remedy, if the sandbox does not start here. */
  static async open({ name, workers, python = PYTHON }: ProcessOptions): Promise<ProcessExecutor> {
    assertInstalled(python, 'Python 3.10 or newer', 'python3');
    if (name === 'bubblewrap') assertInstalled(BUBBLEWRAP, 'bubblewrap', 'bubblewrap');
    const sandbox = name === 'bubblewrap' ? bubblewrapCommand(BUBBLEWRAP, python) : bareCommand(python);
    const [runner, analyst] = await Promise.all([readPythonSources('runner'), readPythonSources('analyst')]);
    const isolation = name === 'bubblewrap' ? 'container' : 'none';
    const parts = { sandbox, runner, analyst, workers };
    const version = await pythonVersion(new ProcessExecutor({ name, isolation, python: 'unknown' }, parts));
    return new ProcessExecutor({ name, isolation, python: version }, parts);
  }

  async run(job: ExecutionJob, { signal, turn }: Parameters<CodeExecutor['run']>[1]): Promise<ExecutionResult> {
    using either = eitherSignal(signal, this.#closed.signal);
    return await runJob(job, 'own', (part, mode) => this.#attempt(part, { mode, signal: either.signal, turn }));
  }

  #attempt(job: ExecutionJob, { mode, signal, turn = null }: Place): Promise<Attempt> {
    const { limits, hashSeed } = job;
    const fields = [mode, ...jobFields(job)];
    const processJob = { sandbox: this.#sandbox, sources: this.#runner, fields, hashSeed, ...limits, replyBytes: replyBytes(job) };
    return this.#limiter.run(() => runProcess(processJob, signal), signal, { turn });
  }

  async analyse(code: string, { signal, turn, ...options }: AnalyseOptions): Promise<CodeFacts> {
    using either = eitherSignal(signal, this.#closed.signal);
    const fields = ['shared', ...analysisFields(code, options)];
    const job = { sandbox: this.#sandbox, sources: this.#analyst, fields, hashSeed: 0, ...ANALYSIS_LIMITS, replyBytes: ANALYSIS_REPLY_BYTES };
    return readFacts(await this.#limiter.run(() => runProcess(job, either.signal), either.signal, { turn: turn ?? null }));
  }

  close(): Promise<void> {
    this.#closed.abort(new CancelledError('The executor was closed.'));
    return Promise.resolve();
  }
}

function assertInstalled(path: string, what: string, debianPackage: string): void {
  const remedy = `sudo apt-get install ${debianPackage}`;
  if (!existsSync(path)) throw new ExecutionError(`${path} does not exist. Install ${what}: ${remedy}`, { remedy });
}

/** Runs a first program, so that a machine that forbids the sandbox is noticed before any program counts. */
async function pythonVersion(executor: ProcessExecutor): Promise<string> {
  const limits = { ...DEFAULT_LIMITS, seconds: 30 };
  const result = await executor.run({ code: VERSION, calls: [''], hashSeed: 0, limits }, { signal: new AbortController().signal });
  const version = result.kind === 'ran' ? result.calls[0] : undefined;
  if (version === undefined || !('repr' in version)) throw new ExecutionError(`The sandbox runs no program: ${JSON.stringify(result)}`);
  return version.repr.slice(1, -1);
}
