import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadRows, openRetriever, type Retriever } from 'vf-search';
import { ASSISTANT_ANCHOR, isValidSequence, makePrefix, normalizeQuestion, observation } from 'vf-search/environments/search-r1';
import { makeTranscripts, TITLE, type Transcript, type TranscriptCounts, writeTranscripts } from '../../../scripts/real-model/transcripts.ts';
import { byteTokenizer } from '../../../src/clients/text-tokenizer.ts';
import { temporaryFolder } from '../../trainer/publisher/adapter-files.ts';

const ROWS = 120;
const folder = temporaryFolder();
let made: { transcripts: Transcript[]; counts: TranscriptCounts };
let retriever: Retriever;
beforeAll(async () => {
  made = await makeTranscripts({ topk: 2, stop_at_answer: true, data_limit: ROWS }, byteTokenizer);
  retriever = await openRetriever();
});
afterAll(async () => {
  folder.remove();
  await retriever.close();
});

describe('makeTranscripts', () => {
  it('writes most rows and counts the others', () => {
    const { written, withoutEvidence, refused } = made.counts;
    expect(made.counts.rows).toBe(ROWS);
    expect(written).toBe(made.transcripts.length);
    expect(written + withoutEvidence + Object.values(refused).reduce((sum, n) => sum + n, 0)).toBe(ROWS);
    expect(written).toBeGreaterThan(0.65 * ROWS);
    expect(withoutEvidence).toBeGreaterThan(0);
  });

  it('asks questions of the train rows, and none that is held out', async () => {
    const prompts = async (split: string) => {
      const { rows } = await loadRows({ dataset: 'nq-mini', split });
      return new Set(rows.map(({ question }) => makePrefix(normalizeQuestion(question)).toLowerCase()));
    };
    const [train, test] = [await prompts('train'), await prompts('test')];
    const asked = made.transcripts.map(({ prompt }) => (prompt[0]!.content as string).toLowerCase());
    expect(asked.filter((text) => !train.has(text))).toEqual([]);
    expect(asked.filter((text) => test.has(text))).toEqual([]);
  });

  it('shows what the environment shows: the retriever’s first passages for the query, as it writes them', async () => {
    for (const { segments } of made.transcripts.slice(0, 20)) {
      expect(segments.map(({ kind }) => kind)).toEqual(['model', 'environment', 'model']);
      const query = /<search>(.*)<\/search>$/.exec(segments[0]!.text)![1]!;
      const [passages] = await retriever.search([query], { topk: 2, signal: new AbortController().signal });
      expect(segments[1]!.text).toBe(observation(passages!));
    }
  });

  it('has a valid format and an answer that stands in a passage', () => {
    for (const { segments } of made.transcripts) {
      const text = segments.map((segment) => segment.text).join('');
      expect(isValidSequence(`${ASSISTANT_ANCHOR}\n${text}`)).toEqual({ valid: true, reason: 'Valid sequence format' });
      const [, quote, answer] = /^<think>Doc \d: (.*)<\/think>\n<answer>(.*)<\/answer>$/.exec(segments[2]!.text)!;
      expect(segments[1]!.text.replaceAll(/\s+/g, ' ')).toContain(quote);
      expect(answer).not.toBe('');
    }
  });

  it('adds demonstrations with arranged passages, also of rows whose first passages lack the answer', async () => {
    const args = { topk: 2, stop_at_answer: true, data_limit: 40 };
    const plain = await makeTranscripts(args, byteTokenizer, { wording: TITLE });
    const more = await makeTranscripts(args, byteTokenizer, { wording: TITLE, arrangements: 2 });
    expect(plain.counts.arranged).toBe(0);
    expect(more.transcripts.slice(0, plain.transcripts.length)).toEqual(plain.transcripts);
    const arranged = more.transcripts.slice(plain.transcripts.length);
    expect(arranged.length).toBe(more.counts.arranged);
    const prompts = (transcripts: readonly Transcript[]) => new Set(transcripts.map(({ prompt }) => prompt[0]!.content as string));
    expect([...prompts(arranged)].filter((prompt) => !prompts(plain.transcripts).has(prompt)).length).toBeGreaterThan(0);
    const seen = (transcripts: readonly Transcript[]) => new Set(transcripts.map(({ segments }) => segments[1]!.text));
    expect([...seen(arranged)].filter((text) => !seen(plain.transcripts).has(text)).length).toBeGreaterThan(0.8 * arranged.length);
    for (const { segments } of arranged) {
      const [, number, title, answer] = /^<think>Doc (\d): (.*)<\/think>\n<answer>(.*)<\/answer>$/.exec(segments[2]!.text)!;
      expect(segments[1]!.text).toContain(`Doc ${number}(Title: "${title}")`);
      expect(answer).not.toBe('');
    }
  });

  it('leaves out demonstrations that the policy’s limits would cut', async () => {
    const { transcripts, counts } = await makeTranscripts({ topk: 2, stop_at_answer: true, data_limit: 30, max_obs_length: 200 }, byteTokenizer);
    expect(counts.refused['cut by a limit of length']).toBeGreaterThan(5);
    expect(transcripts.every(({ segments }) => Buffer.byteLength(segments[1]!.text) <= 1000)).toBe(true);
  });
});

describe('writeTranscripts', () => {
  it('writes one object per line', () => {
    const path = join(folder.path, 'transcripts.jsonl');
    writeTranscripts(path, made.transcripts);
    const lines = readFileSync(path, 'utf8').trimEnd().split('\n');
    expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual(made.transcripts);
  });
});
