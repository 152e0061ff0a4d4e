/** The bench task: turn 1 searches, a constant observation, turn 2 answers, exact-match reward. The peer's version is peers/verifiers/searchr1_peer.py. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Dataset, type EnvResponse, type EpisodeState, MultiTurnEnv, type RewardContext, type Row, Rubric } from 'vf-search';

const INFORMATION = readFileSync(new URL('peers/verifiers/information.txt', import.meta.url), 'utf8');
const PROMPT =
  'Answer the given question. You must conduct reasoning inside <think> and </think> first every time you get new information. ' +
  'After reasoning, if you find you lack some knowledge, you can call a search engine by <search> query </search> and it will return ' +
  'the top searched results between <information> and </information>. You can search as many times as you want. If you find no further ' +
  'external knowledge needed, you can directly provide the answer inside <answer> and </answer>. Question: ';
const PUNCTUATION = /[!-/:-@[-`{-~]/g;

export interface Question {
  readonly question: string;
  readonly golden_answers: readonly string[];
}

function normalise(text: string): string {
  return text
    .toLowerCase()
    .replace(PUNCTUATION, '')
    .replace(/\b(a|an|the)\b/g, ' ')
    .split(/\s+/)
    .filter(Boolean)
    .join(' ');
}

function exactMatch({ segments, row }: RewardContext): number {
  const last = segments.at(-1)!.text;
  const given = [...last.matchAll(/<answer>(.*?)<\/answer>/gs)].at(-1)?.[1];
  return given !== undefined && (row.info!['golden'] as string[]).map(normalise).includes(normalise(given)) ? 1 : 0;
}

/** As in upstream's Search-R1: one assistant turn with observations appended as raw text; every token is kept. */
export class TwoTurnEnv extends MultiTurnEnv {
  constructor(questions: readonly Question[]) {
    const rows: Row[] = questions.map((q, exampleId) => ({
      exampleId,
      prompt: [{ role: 'user', content: PROMPT + q.question }],
      info: { golden: q.golden_answers },
    }));
    super({ id: 'two-turn', eval: new Dataset('bench', rows), rubric: new Rubric({ funcs: [exactMatch] }), maxTurns: 4, turnFormat: 'continuation' });
  }

  protected setupState(): EpisodeState {
    return { turns: 0 };
  }

  protected envResponse(kept: string): EnvResponse {
    return kept.includes('</answer>') ? { done: true } : { observation: INFORMATION };
  }
}

/** nq-mini's train and test questions, the first `n`. */
export function benchQuestions(n: number): Question[] {
  const files = ['train', 'test'].map((split) => readFileSync(new URL(`../../datasets/nq-mini/${split}.jsonl`, import.meta.url), 'utf8'));
  return files
    .flatMap((text) => text.trimEnd().split('\n'))
    .slice(0, n)
    .map((line) => JSON.parse(line) as Question);
}

/** Writes the file that the peers read, and returns its path. */
export function writeQuestions(questions: readonly Question[], directory: string): string {
  const path = join(directory, 'questions.jsonl');
  writeFileSync(path, questions.map((question) => `${JSON.stringify(question)}\n`).join(''));
  return path;
}

/** The task as an environment: `vf-eval scripts/bench/two-turn-task.ts`. */
export function loadEnvironment(args: { n?: number } = {}): TwoTurnEnv {
  return new TwoTurnEnv(benchQuestions(args.n ?? 2000));
}
