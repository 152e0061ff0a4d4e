/** In every environment with rows: rows for evaluation are never those to train on without a word. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ConfigError, type Environment, loadEnvironment } from 'vf-search';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startLoopbackHub } from '../data/loopback-hub.ts';

const SAME = 'The rows for training are also the rows for evaluation.';

async function using<T>(opened: Promise<Environment>, read: (environment: Environment) => T): Promise<T> {
  const environment = await opened;
  try {
    return read(environment);
  } finally {
    await environment.close();
  }
}

/** A corpus that is read at once. */
const SMALL = { corpus: 'fact-world' };
const prompts = (rows: Environment['eval']) => [...rows].map(({ exampleId, prompt }) => JSON.stringify([exampleId, prompt]));

describe('environment.train', () => {
  const given = { 'search-o1': SMALL, 'grpo-000': { engine: 'mock' }, 'visual-rag': { observations: 'ocr' } };
  it.each(['search-r1', 'grpo-000', 'search-o1', 'visual-rag'])(
    'is refused after a load for evaluation, and apart from eval for training {%s}',
    async (id) => {
      const args = (given as Record<string, Record<string, unknown>>)[id] ?? {};
      await using(loadEnvironment(id, args), (environment) => {
        expect(environment.eval.length).toBeGreaterThan(0);
        expect(() => environment.train).toThrow(ConfigError);
        expect(() => environment.train).toThrow(/purpose: 'training'/);
      });
      await using(loadEnvironment(id, args, { purpose: 'training' }), ({ train, eval: held, notices }) => {
        const taught = new Set(prompts(train));
        expect(taught.size).toBe(train.length);
        expect(prompts(held).filter((each) => taught.has(each))).toEqual([]);
        expect(notices).not.toContain(SAME);
      });
    },
  );

  it('is refused by a pipeline, which is never trained', async () => {
    await using(loadEnvironment('pipeline'), (environment) => expect(() => environment.train).toThrow(/^pipeline has no rows to train on/));
  });

  describe('from files and the hub', () => {
    let folder: string;
    beforeAll(() => void (folder = mkdtempSync(join(tmpdir(), 'training-rows-'))));
    afterAll(() => rmSync(folder, { recursive: true }));

    it.each([
      ['search-r1', 'one.jsonl', '{"question": "Who?", "golden_answers": ["I"]}\n'],
      ['search-o1', 'one.jsonl', '{"question": "Who?", "golden_answers": ["I"]}\n'],
      ['grpo-000', 'one.csv', 'query,ground_truth\nWho?,I\n'],
    ])('is eval where the data set has one split, and a notice says so {%s %s}', async (id, name, text) => {
      const dataset = join(folder, name);
      writeFileSync(dataset, text);
      const small = id === 'grpo-000' ? { engine: 'mock' } : SMALL;
      await using(loadEnvironment(id, { ...small, dataset }, { purpose: 'training' }), ({ train, eval: held, notices }) => {
        expect(train.at(0).prompt).toEqual(held.at(0).prompt);
        expect(notices).toContain(SAME);
      });
      await using(loadEnvironment(id, { ...small, dataset }), ({ notices }) => expect(notices).not.toContain(SAME));
    });

    it('is the split train of the hub; where only train exists, a notice says what eval is', async () => {
      const row = (question: string) => `{"question": "${question}", "golden_answers": ["I"]}\n`;
      const files = { 'nq/train.jsonl': row('Taught?'), 'nq/test.jsonl': row('Held?'), 'triviaqa/train.jsonl': row('Taught?') };
      const hub = await startLoopbackHub({ repository: 'RUC-NLPIR/FlashRAG_datasets', commit: 'ad1ee41ccf627036706307ab28318c09600f4f42', files });
      const env = { HF_ENDPOINT: hub.url, HF_HOME: folder };
      try {
        await using(loadEnvironment('search-r1', { ...SMALL, dataset: 'nq' }, { env }), (environment) => {
          expect(environment.eval.at(0).prompt[0]!.content).toContain('Held?');
          expect(() => environment.train).toThrow(/purpose: 'training'/);
        });
        expect(hub.requests.filter((request) => request.includes('train.jsonl'))).toEqual([]);
        await using(loadEnvironment('search-r1', { ...SMALL, dataset: 'nq' }, { env, purpose: 'training' }), ({ train, eval: held }) => {
          expect(train.at(0).prompt[0]!.content).toContain('Taught?');
          expect(held.at(0).prompt[0]!.content).toContain('Held?');
        });
        await using(loadEnvironment('search-r1', { ...SMALL, dataset: 'triviaqa' }, { env }), ({ notices }) =>
          expect(notices).toContainEqual(expect.stringMatching(/^triviaqa has no split test or dev on the hub.*split train\.$/)),
        );
        await using(loadEnvironment('search-r1', { ...SMALL, dataset: 'triviaqa' }, { env, purpose: 'training' }), ({ notices }) =>
          expect(notices).toContain(SAME),
        );
      } finally {
        await hub.close();
      }
    });
  });
});
