import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { Dataset } from '../../../src/core/dataset.ts';
import { Rubric } from '../../../src/core/rubric.ts';
import { SingleTurnEnv } from '../../../src/core/single-turn.ts';
import { openDemonstrations } from '../../../src/sessions/training/open-demonstrations.ts';
import type { TrainingSession } from '../../../src/trainer/training-session.ts';
import { someConfig } from '../../trainer/some-config.ts';

const folder = mkdtempSync(join(tmpdir(), 'vf-rows-'));
afterAll(() => rmSync(folder, { recursive: true }));
const environment = new SingleTurnEnv({ id: 'rows', eval: new Dataset('rows', []), rubric: new Rubric({ funcs: [] }) });
/** A backend that has no limit of its own, as the torch worker, and no server. */
const session = { isServed: false, client: { capabilities: { maxModelLen: null } }, backend: { capabilities: { maxTokens: Infinity } } };

describe('openDemonstrations', () => {
  it.each([
    [{}, 2048],
    [{ max_length: 4000 }, 2048],
    [{ max_length: 20 }, 20],
  ])(
    "leaves out rows beyond the model's window in a run without a server, and with sft = %j none below it",
    async (sft: { max_length?: number }, limit: number) => {
      const data = join(folder, 'rows.jsonl');
      const row = (tokens: number) => JSON.stringify({ token_ids: Array(tokens).fill(7), loss_mask: [0, ...Array(tokens - 1).fill(1)] });
      writeFileSync(data, [limit, limit + 1, limit + 2, 2].map(row).join('\n'));
      const lines: string[] = [];
      const path = join(import.meta.dirname, '../../models/nano-base');
      const opened = await openDemonstrations(someConfig({ model: { path }, steps: 0, sft: { data, steps: 1, ...sft } }), environment, {
        variables: {},
        warn: (line) => lines.push(line),
        signal: new AbortController().signal,
      });
      const { training } = await opened.tokenise(session as unknown as TrainingSession, new AbortController().signal);
      expect(training.map(({ ids }) => ids.length)).toEqual([limit, 2]);
      const raised = 'sft.max_length is 4000, but the window is 2,048 tokens, so that rows may have that many';
      expect(lines).toEqual([
        ...(sft.max_length === 4000 ? [raised] : []),
        `left out 2 of 4 supervised rows: longer than ${limit.toLocaleString('en-US')} tokens`,
      ]);
    },
  );
});
