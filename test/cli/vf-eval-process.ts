/** Real commands, in a folder of their own, with an environment to play and no variable of the developer's. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { TemporaryFolder } from './eval/temporary-folder.ts';
import { BARE_ENVIRONMENT } from '../bare-environment.ts';
import { runInProcess } from './in-process.ts';

const BIN = join(import.meta.dirname, '../../bin');

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Running {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
}

/**
 * A folder with `environments/capitals`: 40 rows that all ask for the capital of France. Its arguments: `rows`; `delay_ms` before every
 * answer of the environment; `deaf`: it never answers, ignores the signal to stop, and does not close; `format`: chat or continuation.
 */
export class EvalFolder extends TemporaryFolder {
  /**
   * Whether `run` starts a process: for what a test says of processes, and for errors that an environment throws. Node loads the environment, and with it a second copy of the
   * package, whose errors are of other classes than those of the copy that the test runs.
   */
  hasOwnProcess = false;

  constructor() {
    super();
    this.file('environments/capitals/environment.mjs', ENVIRONMENT);
  }

  file(name: string, text: string): string {
    mkdirSync(dirname(join(this.path, name)), { recursive: true });
    return this.write(name, text);
  }

  start(args: readonly string[], variables: Readonly<Record<string, string>> = {}, command = 'vf-eval', { cwd = this.path } = {}): Running {
    const env = { ...BARE_ENVIRONMENT, ...this.#variables(variables) };
    const child = spawn(process.execPath, [join(BIN, `${command}.js`), ...args], { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
    const text = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr'] as const) child[name].setEncoding('utf8').on('data', (chunk: string) => (text[name] += chunk));
    const ended = once(child, 'close').then(([code, signal]) => ({ code: code as number | null, signal: signal as NodeJS.Signals | null, ...text }));
    return { child, ended };
  }

  /** Runs to the end, in the process of the test unless `hasOwnProcess`. */
  async run(args: readonly string[], variables: Readonly<Record<string, string>> = {}, command = 'vf-eval'): Promise<Ended> {
    if (this.hasOwnProcess) return this.start(args, variables, command).ended;
    return { ...(await runInProcess(command, args, { cwd: this.path, env: this.#variables(variables) })), signal: null };
  }

  #variables(variables: Readonly<Record<string, string>>): Record<string, string> {
    return { HOME: this.path, TMPDIR: process.env['TMPDIR'] ?? '/tmp', ...variables };
  }

  /** Every file under the folder but the environments, with its text. */
  files(): Map<string, string> {
    return new Map(this.#names().map((name) => [name, readFileSync(join(this.path, name), 'utf8')]));
  }

  /** The lines of the only results.jsonl there is; none while there is no whole line. */
  results(): Record<string, unknown>[] {
    const name = this.#names().find((file) => file.endsWith('results.jsonl'));
    const text = name === undefined ? '' : readFileSync(join(this.path, name), 'utf8');
    return text
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  }

  /** The run may be at work: a file that was listed can be gone. */
  #names(): string[] {
    const names = readdirSync(this.path, { recursive: true, encoding: 'utf8' }).filter((name) => !name.startsWith('environments'));
    return names.filter((name) => statSync(join(this.path, name), { throwIfNoEntry: false })?.isFile() === true);
  }
}

const ENVIRONMENT = `
import { ConfigError, Dataset, metric, MultiTurnEnv, reward, Rubric } from 'vf-search';

class Capitals extends MultiTurnEnv {
  constructor(options, { delay_ms = 0, deaf = false }) {
    super(options);
    this.delayMs = delay_ms;
    this.deaf = deaf;
  }
  setupState() {
    return { turns: 0 };
  }
  async close() {
    if (this.deaf) await new Promise((resolve) => setTimeout(resolve, 600_000));
  }
  async envResponse(text) {
    if (this.deaf) await new Promise((resolve) => setTimeout(resolve, 600_000));
    if (this.delayMs > 0) await new Promise((resolve) => setTimeout(resolve, this.delayMs));
    if (text.includes('<answer>')) return { done: true };
    return { observation: '\\n\\n<information>Doc 1(Title: "France") Paris is the capital of France.</information>\\n\\n' };
  }
}

export function loadEnvironment(args) {
  const { rows = 40, format = 'continuation', delay_ms, deaf, service_token, service_url, ...unknown } = args;
  const [name] = Object.keys(unknown);
  if (name !== undefined) throw new ConfigError(\`Unknown argument "\${name}" of capitals; known are rows, format, delay_ms, deaf, service_token, service_url\`);
  const row = (i) => ({ exampleId: 'c' + i, prompt: [{ role: 'user', content: 'Question: What is the capital of France?' }], answer: 'Paris' });
  const options = {
    id: 'capitals',
    eval: new Dataset('capitals', Array.from({ length: rows }, (_, i) => row(i))),
    turnFormat: format,
    stop: ['</search>', '</answer>'],
    maxTurns: 3,
    notices: ['capitals is a toy.', ...(service_token === undefined ? [] : ['It sends ' + service_token])],
    rubric: new Rubric({ funcs: [reward((c) => Number(c.modelText.includes(c.row.answer)), { name: 'em' }), metric((c) => c.state.turns, { name: 'turns' })] }),
  };
  return new Capitals(options, { delay_ms, deaf });
}
`;
