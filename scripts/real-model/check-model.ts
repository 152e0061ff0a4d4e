/** Checks that our parts read the model directory as transformers does: tokenizer and torch worker. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { json } from 'node:stream/consumers';
import { join } from 'node:path';
import { openTokenizer } from '../../src/tokenizer/open-tokenizer.ts';
import { TorchBackend } from '../../src/trainer/gradients/torch/torch-backend.ts';
import type { Transcript } from './transcripts.ts';

export interface ModelCheck {
  /** Number of texts that our tokenizer and transformers encoded, and of those with differences. */
  readonly texts: number;
  readonly tokens: number;
  readonly differentTexts: number;
  /** Tokens whose log-probs the torch worker and transformers computed in float32, and the largest difference in nats. */
  readonly logProbs: number;
  readonly longestSequence: number;
  readonly largestDifference: number;
}

export interface ModelCheckOptions {
  readonly directory: string;
  readonly python: string;
  readonly transcripts: readonly Transcript[];
  readonly threads: number;
}

interface Sequence {
  readonly ids: readonly number[];
  readonly targets: readonly number[];
}

/** The number of sequences that get log-probs. The longest are taken: they exceed the model's window of attention. */
const SEQUENCES = 3;
const TIMEOUT_MS = 600_000;

export async function checkModel({ directory, python, transcripts, threads }: ModelCheckOptions): Promise<ModelCheck> {
  const tokenizer = await openTokenizer(directory);
  const ours = (text: string) => [...tokenizer.encode(text, { addSpecialTokens: true })];
  const texts = transcripts.flatMap(({ prompt, segments }) => [prompt[0]!.content as string, ...segments.map(({ text }) => text)]);
  const sequences = transcripts
    .map((transcript) => sequenceOf(transcript, ours))
    .toSorted((a, b) => b.ids.length - a.ids.length)
    .slice(0, SEQUENCES);
  const theirs = await oracle(python, { model: directory, texts, sequences, threads });
  const logProbs = await workerLogProbs({ directory, python, threads }, sequences);
  return {
    texts: texts.length,
    tokens: theirs.ids.reduce((sum, ids) => sum + ids.length, 0),
    differentTexts: texts.filter((text, i) => ours(text).join() !== theirs.ids[i]!.join()).length,
    logProbs: logProbs.flat().length,
    longestSequence: sequences[0]!.ids.length,
    largestDifference: Math.max(...logProbs.flatMap((own, i) => own.map((x, j) => Math.abs(x - theirs.log_probs[i]![j]!)))),
  };
}

/** The tokens of a transcript as in sampling: BOS, the prompt, then each segment by itself. Targets are the model's own tokens. */
function sequenceOf({ prompt, segments }: Transcript, encode: (text: string) => readonly number[]): Sequence {
  const ids = [...encode(prompt[0]!.content as string)];
  const targets: number[] = [];
  for (const { kind, text } of segments) {
    // Without the BOS.
    const own = encode(text).slice(1);
    if (kind === 'model') targets.push(...own.map((_, i) => ids.length + i));
    ids.push(...own);
  }
  return { ids, targets };
}

async function oracle(
  python: string,
  asked: object,
): Promise<{ readonly ids: readonly (readonly number[])[]; readonly log_probs: readonly number[][] }> {
  const child = spawn(python, [join(import.meta.dirname, 'oracle.py')], {
    env: { ...process.env, HF_HUB_OFFLINE: '1' },
    stdio: ['pipe', 'pipe', 'inherit'],
    timeout: TIMEOUT_MS,
  });
  child.stdin.end(JSON.stringify(asked));
  const [answer] = await Promise.all([json(child.stdout), once(child, 'close')]);
  return answer as Awaited<ReturnType<typeof oracle>>;
}

async function workerLogProbs(
  { directory, python, threads }: Omit<ModelCheckOptions, 'transcripts'>,
  sequences: readonly Sequence[],
): Promise<number[][]> {
  const { signal } = new AbortController();
  const targets = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'];
  const backend = await TorchBackend.start({
    python,
    modelPath: directory,
    adapter: { rank: 16, alpha: 32, targets, seed: 0, initial: null },
    devices: ['cpu'],
    dtype: 'float32',
    gradientCheckpointing: false,
    threads,
    timeoutMs: TIMEOUT_MS,
    logPath: null,
    signal,
  });
  try {
    const offsets = [0];
    for (const { ids } of sequences) offsets.push(offsets.at(-1)! + ids.length);
    const batch = {
      ids: Int32Array.from(sequences.flatMap(({ ids }) => ids)),
      offsets: Int32Array.from(offsets),
      targets: Int32Array.from(sequences.flatMap((sequence, i) => sequence.targets.map((target) => offsets[i]! + target))),
      temperature: 1,
    };
    const { logProbs } = await backend.forward(batch, { retain: false, adapter: 'on', signal });
    let at = 0;
    return sequences.map((sequence) => [...logProbs.subarray(at, (at += sequence.targets.length))]);
  } finally {
    await backend.close();
  }
}
