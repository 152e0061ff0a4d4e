import { mkdtemp, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { JournalFile } from '../../src/pipelines/call-journal.ts';
import type { CallContext, PipelineServer, Values } from '../../src/pipelines/pipeline-server.ts';
import { runText, type Texts, tool } from './toy-servers.ts';

/** Questions are digits: how many more searches each needs. */
function digits(questions: Texts): Readonly<Record<string, PipelineServer>> {
  const each = (run: (text: string) => unknown) => (values: Values) => (Object.values(values)[0] as Texts).map(run);
  return {
    s: {
      parameters: {},
      tools: {
        start: tool('->q,a', () => ({ q: questions, a: questions })),
        search: tool('a->found', (values) => ({ found: each((a) => `[${a}]`)(values) })),
        insert: tool(
          'a,found,q->a',
          ({ a, found, q }) => ({
            a: (a as Texts).map((text, i) => `${Number(text[0]) - 1}${text.slice(1)}${(found as Texts)[i]!}${(q as Texts)[i]!}`),
          }),
          {
            isPerItem: true,
          },
        ),
        wrong: tool('a->a', () => ({ a: [1, 2, 3, 4, 5, 6, 7, 8] })),
        count: tool('memory_a->n', ({ memory_a }) => ({ n: (memory_a as unknown[]).length })),
      },
    },
    r: {
      parameters: {},
      tools: { check: tool('a->a', (values) => ({ a: each((data) => ({ data, state: data.startsWith('0') ? 'stop' : 'retrieve' }))(values) })) },
    },
  };
}

const SEARCHES = `
servers: {s: x, r: y}
pipeline:
- s.start
- loop:
    times: 5
    steps:
    - branch: {router: [r.check], branches: {retrieve: [s.search, s.insert], stop: []}}
`;

describe('runPipeline', () => {
  it('never shows a branch the questions of another, {for any questions}: a batch gives what each question gives alone', async () => {
    const questions = fc.array(fc.integer({ min: 0, max: 4 }).map(String), { minLength: 1, maxLength: 6 });
    await fc.assert(
      fc.asyncProperty(questions, async (all) => {
        const batch = await runText(SEARCHES, digits(all));
        const alone = await Promise.all(all.map((question) => runText(SEARCHES, digits([question]))));
        expect(batch.variables['a']).toEqual(alone.map(({ variables }) => (variables['a'] as Texts)[0]));
      }),
      { numRuns: 40 },
    );
  });

  it('routes again in every round and ends the loop when no question is left', async () => {
    const { log } = await runText(SEARCHES, digits(['0', '2', '1']));
    expect(log.map(({ name, questions }) => `${name} ${questions}`)).toEqual([
      's.start null',
      'r.check 3',
      's.search 2',
      's.insert 2',
      'r.check 3',
      's.search 1',
      's.insert 1',
      'r.check 3',
    ]);
  });

  it('names a state without a branch, a list of another length, unequal lists and a missing output', async () => {
    const servers = digits(['0', '1']);
    const steps = (text: string) => `servers: {s: x, r: y}\npipeline:\n- s.start\n${text}`;
    await expect(runText(steps('- branch: {router: [r.check], branches: {retrieve: []}}'), servers)).rejects.toThrow(
      'The router of step 2 gave the state "stop", which has no branch; there are retrieve',
    );
    await expect(runText(steps('- branch: {router: [r.check], branches: {retrieve: [s.wrong], stop: []}}'), servers)).rejects.toThrow(
      's.wrong gave a list of 8 for 1 questions',
    );
    await expect(runText(steps('- s.wrong\n- s.search\n- s.insert'), servers)).rejects.toThrow(
      's.insert (step 4) got lists of unequal lengths: 8 a and 2 q',
    );
    const mute = { ...servers, s: { ...servers['s']!, tools: { ...servers['s']!.tools, search: tool('a->found', () => ({ fond: [] })) } } };
    await expect(runText(steps('- s.search'), mute)).rejects.toThrow('s.search did not give found; it gave fond');
    await expect(runText(steps('- branch: {router: [s.search], branches: {x: []}}'), servers)).rejects.toThrow(
      'The router s.search must give a list of {data, state}',
    );
  });

  it('leaves a failed question out of every later call, with null in its place, and shows it to tools that ask for it', async () => {
    const servers = digits(['1', '1', '1']);
    const seen: unknown[] = [];
    const own: PipelineServer = {
      parameters: {},
      tools: {
        generate: tool('a->ans', ({ a }: Values, context: CallContext) => {
          context.fail(1, new Error('too long'));
          return { ans: (a as Texts).map((text, i) => (i === 1 ? null : `${text}!`)) };
        }),
        see: tool('ans,q->seen', ({ ans, q }) => ({ seen: (seen.push([ans, q]), ans) })),
        evaluate: tool('ans->res', ({ ans }) => ({ res: { all: ans } }), { takesFailed: true }),
      },
    };
    const yaml = 'servers: {s: x, o: z}\npipeline: [s.start, o.generate, o.see, o.evaluate]';
    const { failed, variables, questions } = await runText(yaml, { ...servers, o: own });
    expect(seen).toEqual([
      [
        ['1!', '1!'],
        ['1', '1'],
      ],
    ]);
    expect(variables).toMatchObject({ ans: ['1!', null, '1!'], seen: ['1!', null, '1!'], res: { all: ['1!', null, '1!'] } });
    expect([...failed]).toEqual([[1, 'o.generate: too long']]);
    expect(questions).toBe(3);
  });

  it('ends the run when every question has failed, with the first reason', async () => {
    const own: PipelineServer = {
      parameters: {},
      tools: {
        generate: tool('a->ans', ({ a }: Values, context: CallContext) => {
          (a as Texts).forEach((_, i) => context.fail(i, new Error('no model')));
          return { ans: (a as Texts).map(() => null) };
        }),
      },
    };
    await expect(runText('servers: {s: x, o: z}\npipeline: [s.start, o.generate]', { ...digits(['1', '1']), o: own })).rejects.toThrow(
      'All 2 questions failed in o.generate (step 2): o.generate: no model',
    );
  });

  it('names the call whose tool gave lists of another length than it got', async () => {
    const servers = digits(['0', '1']);
    const tools = { short: tool('a->b', () => ({ b: ['x'] }), { isPerItem: true }) };
    await expect(runText('servers: {s: x, o: z}\npipeline: [s.start, o.short]', { ...servers, o: { parameters: {}, tools } })).rejects.toThrow(
      'o.short (step 2) gave a list of 1 as b for 2 a',
    );
  });

  it('lets a tool change a parameter for later steps', async () => {
    const own: PipelineServer = {
      parameters: { url: {} },
      tools: { open: tool('->url', () => ({ url: 'new' })), show: tool('url->shown', ({ url }) => ({ shown: url })) },
    };
    const { variables } = await runText('servers: {o: z}\npipeline: [o.open, o.show]', { o: own }, { parameters: new Map([['o', { url: 'old' }]]) });
    expect(variables).toEqual({ shown: 'new' });
  });
});

describe('JournalFile', () => {
  let folder: string;
  beforeAll(async () => void (folder = await mkdtemp(join(tmpdir(), 'journal-'))));
  afterAll(() => rm(folder, { recursive: true }));

  /** Runs with a journal; `asked` counts the replies that were asked for. */
  async function run(path: string, resume: boolean, asked: string[], dieAt = Infinity) {
    const servers = digits(['2', '0', '3']);
    const own: PipelineServer = {
      parameters: {},
      tools: {
        generate: tool('a->a', async ({ a }: Values, context: CallContext) => ({
          a: await Promise.all(
            (a as Texts).map(async (text, i) => {
              const known = context.recall(i) as string | undefined;
              if (known !== undefined) return known;
              if (asked.length >= dieAt) throw new Error('killed');
              asked.push(text);
              context.record(i, `${text}.`);
              return `${text}.`;
            }),
          ),
        })),
      },
    };
    const yaml = SEARCHES.replace('s.insert]', 's.insert, o.generate]').replace('{s: x,', '{o: z, s: x,');
    await using journal = await JournalFile.open(path, { pipeline: 'p' }, { resume });
    return await runText(yaml, { ...servers, o: own }, { journal });
  }

  it('goes on after a kill at any place, within a call too, with the same result and no reply asked for twice', async () => {
    const whole: string[] = [];
    const expected = await run(join(folder, 'whole.jsonl'), false, whole);
    for (let dieAt = 0; dieAt < whole.length; dieAt++) {
      const path = join(folder, `${dieAt}.jsonl`);
      const asked: string[] = [];
      await expect(run(path, false, asked, dieAt)).rejects.toThrow('killed');
      const { log, variables } = await run(path, true, asked);
      expect(variables).toEqual(expected.variables);
      expect(asked).toEqual(whole);
      expect(log.some(({ isRecorded }) => isRecorded)).toBe(true);
    }
  });

  it('asks again in a call in which every question failed', async () => {
    let isUp = false;
    const generate = tool('a->ans', ({ a }: Values, context: CallContext) => {
      if (!isUp) (a as Texts).forEach((_, i) => context.fail(i, new Error('no model')));
      return { ans: (a as Texts).map(() => (isUp ? 'yes' : null)) };
    });
    const servers = { ...digits(['1', '1']), o: { parameters: {}, tools: { generate } } };
    const play = async (resume: boolean) => {
      await using journal = await JournalFile.open(join(folder, 'down.jsonl'), { pipeline: 'p' }, { resume });
      return await runText('servers: {s: x, o: z}\npipeline: [s.start, o.generate]', servers, { journal });
    };
    await expect(play(false)).rejects.toThrow('All 2 questions failed');
    isUp = true;
    const { variables, failed } = await play(true);
    expect({ ans: variables['ans'], failed: failed.size }).toEqual({ ans: ['yes', 'yes'], failed: 0 });
  });

  it('drops a last line that was cut off', async () => {
    const path = join(folder, 'torn.jsonl');
    const expected = await run(path, false, []);
    const bytes = (await readFile(path)).length;
    for (const cut of [1, 10, Math.floor(bytes / 2)]) {
      await truncate(path, bytes - cut);
      expect((await run(path, true, [])).variables).toEqual(expected.variables);
    }
  });

  it('refuses the file of another run', async () => {
    const path = join(folder, 'other.jsonl');
    await writeFile(path, '{"pipeline":"q"}\n');
    await expect(run(path, true, [])).rejects.toThrow(
      `The pipeline has changed since the run in ${path} began. Start a new run without -R, or undo the change.`,
    );
  });
});
