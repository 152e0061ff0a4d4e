/** The server `benchmark` of UltraRAG: questions and golden answers from a file, in UltraRAG's shuffled order. */
import { normalizeText } from '../../metrics/normalize-answer.ts';
import { doubtfulNotices } from '../../schemas/golden-answers.ts';
import { isObject } from '../../schemas/is-object.ts';
import { kindOrNumber } from '../../schemas/kind-of.ts';
import { isAnswerColumn } from '../../schemas/question-row.ts';
import { PipelineFileError } from '../pipeline-error.ts';
import type { PipelineServer, Values } from '../pipeline-server.ts';
import { pythonShuffle } from '../python-shuffle.ts';
import { readBenchmarkRows } from './benchmark-rows.ts';

/** A list for each name of `key_map`. */
export type BenchmarkLists = Readonly<Record<string, readonly unknown[]>>;

const KEYS = ['name', 'path', 'key_map', 'shuffle', 'seed', 'limit'];

const DEFAULT = {
  name: 'nq',
  path: 'data/sample_nq_10.jsonl',
  key_map: { q_ls: 'question', gt_ls: 'golden_answers' },
  shuffle: false,
  seed: 42,
  limit: -1,
};

/** `given`: the parameters that are set for the server, which name its variables. */
export function benchmarkServer(given: Values): PipelineServer {
  const loaded = new Map<string, Promise<BenchmarkLists>>();
  const load = (settings: unknown, resolve: (path: string) => string) => {
    const key = JSON.stringify(settings);
    const lists = loaded.get(key) ?? loadBenchmark(settings, resolve).then(withEqualLengths);
    loaded.set(key, lists);
    return lists;
  };
  const { benchmark = DEFAULT } = given;
  const keyMap = isObject(benchmark) && isObject(benchmark['key_map']) ? benchmark['key_map'] : DEFAULT.key_map;
  return {
    parameters: { benchmark: { type: 'object', default: DEFAULT } },
    tools: {
      get_data: {
        io: `benchmark->${Object.keys(keyMap).join(',')}`,
        description: 'a list for each name of key_map, one entry for each question',
        check: async (parameters, { resolve, warn }) => {
          const lists = await load(parameters['benchmark'], resolve);
          for (const [alias, column] of Object.entries(keyMap)) if (isAnswerColumn(String(column))) warnOfAnswers(alias, lists[alias] ?? [], warn);
        },
        run: async (args, { resolve }) => load(args['benchmark'], resolve),
      },
    },
  };
}

/**
 * UltraRAG's `get_data`. A row without a key is left out of that key's list, so that lists may have unequal lengths.
 * Rejects with PipelineFileError for wrong settings or an unreadable file.
 */
export async function loadBenchmark(settings: unknown, resolve: (path: string) => string): Promise<BenchmarkLists> {
  const { path, keyMap, shuffle, seed, limit } = readSettings(settings);
  const most = limit === -1 ? Infinity : limit;
  const rows = await readBenchmarkRows(resolve(path), { limit: shuffle ? Infinity : most, columns: Object.values(keyMap) });
  const lists = Object.entries(keyMap).map(([alias, key]) => [alias, rows.flatMap((row) => (Object.hasOwn(row, key) ? [row[key]] : []))] as const);
  if (!shuffle) return Object.fromEntries(lists);
  const order = pythonShuffle(lists[0]![1].length, seed).slice(0, most);
  return Object.fromEntries(
    lists.map(([alias, list]) => {
      if (order.some((i) => i >= list.length)) throw wrong(`The benchmark ${path} has rows without ${keyMap[alias]}, so it cannot be shuffled`);
      return [alias, order.map((i) => list[i])];
    }),
  );
}

interface BenchmarkSettings {
  readonly path: string;
  readonly keyMap: Readonly<Record<string, string>>;
  readonly shuffle: boolean;
  readonly seed: bigint;
  readonly limit: number;
}

function readSettings(settings: unknown): BenchmarkSettings {
  if (!isObject(settings)) throw wrong(`benchmark.benchmark must be a table, got ${kindOrNumber(settings)}`);
  const stranger = Object.keys(settings).find((key) => !KEYS.includes(key));
  if (stranger !== undefined) throw new PipelineFileError(`benchmark.benchmark has no key ${stranger}; it has ${KEYS.join(', ')}`, { fault: 'key' });
  const { path, key_map: keyMap = {}, shuffle = false, seed = 42, limit = -1 } = settings;
  if (typeof path !== 'string' || path === '') throw wrong('benchmark.benchmark.path must name a .jsonl, .json or .parquet file');
  if (!isObject(keyMap) || Object.keys(keyMap).length === 0)
    throw wrong('benchmark.benchmark.key_map must have at least one name, such as q_ls: question');
  const nameless = Object.entries(keyMap).find(([alias, key]) => typeof key !== 'string' || !/^[\w-]+$/.test(alias));
  if (nameless !== undefined)
    throw wrong(`benchmark.benchmark.key_map.${nameless[0]} must be the name of a column, got ${kindOrNumber(nameless[1])}`);
  if (typeof shuffle !== 'boolean') throw wrong(`benchmark.benchmark.shuffle must be true or false, got ${kindOrNumber(shuffle)}`);
  if (typeof limit !== 'number' || !Number.isInteger(limit) || limit < -1 || limit === 0) {
    throw wrong(`benchmark.benchmark.limit must be -1 (all) or a whole number of at least 1, got ${kindOrNumber(limit)}`);
  }
  const number = Number.isInteger(seed) || (typeof seed === 'string' && /^-?\d+$/.test(seed)) ? BigInt(seed as number) : null;
  if (number === null) throw wrong(`benchmark.benchmark.seed must be a whole number, got ${kindOrNumber(seed)}`);
  return { path, keyMap: keyMap as Record<string, string>, shuffle, seed: number, limit };
}

/** UltraRAG continues with lists of unequal lengths, and so pairs questions with the answers of others. */
function withEqualLengths(lists: BenchmarkLists): BenchmarkLists {
  const [first, ...others] = Object.entries(lists);
  const other = others.find(([, list]) => list.length !== first![1].length);
  if (other !== undefined) {
    throw wrong(`The benchmark has ${first![1].length} ${first![0]} but ${other[1].length} ${other[0]}; a row lacks a key of key_map`);
  }
  if (first![1].length === 0) throw wrong(`The benchmark has no row with the key of ${first![0]} (benchmark.benchmark.key_map)`);
  return lists;
}

/** Answers that look like missing values, and those of which normalisation leaves nothing: they are in every prediction for `acc`, and no other metric finds them. */
function warnOfAnswers(alias: string, golden: readonly unknown[], warn: ((line: string) => void) | undefined): void {
  const answers = golden.flat().filter((answer) => typeof answer === 'string');
  for (const line of doubtfulNotices([{ where: alias, answers }])) warn?.(line);
  const vanishing = answers.filter((answer) => normalizeText(answer) === '');
  if (vanishing.length === 0) return;
  const count = vanishing.length === 1 ? '1 golden answer' : `${vanishing.length} golden answers`;
  warn?.(
    `${alias} has ${count} with nothing left to compare once articles and punctuation are removed, such as ${JSON.stringify(vanishing[0])}; acc is 1 for them whatever is predicted.`,
  );
}

function wrong(message: string): PipelineFileError {
  return new PipelineFileError(message, { fault: 'parameter' });
}
