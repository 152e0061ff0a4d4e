/** The branches that a person would draw of what unmodified agents sent, run by run (test/golden/agents). */
import { describe, expect, it } from 'vitest';
import { playRun, recordedRuns } from './played-clients.ts';

/** A loop of tools is one branch, whatever the client does to the turns that it restates; each number is a request. */
const ONE_BRANCH: Readonly<Record<string, readonly string[]>> = {
  plain: ['1 2'],
  rich: ['1 2 3'],
  ws: ['1 2'],
  rfield: ['1 2'],
  badjson: ['1 2'],
  // A second message of the user, in some clients from a new process.
  continued: ['1 2 3 4'],
  ownmodelname: ['1 2'],
  nonreasoningname: ['1 2'],
  storefalse: ['1 2 3'],
  // Request 1 failed and has no turn.
  retry500: ['2 3'],
};

/** The first stream was cut: these give up, the others send the list again. */
const GIVES_UP = /^(aisdk|langgraph|mastra|openai-agents)/;

const OTHERWISE: Readonly<Record<string, readonly string[]>> = {
  // A title is asked for at the same time, without tools.
  ...Object.fromEntries(
    Object.entries({ plain: '2 3', rich: '2 3 4', ws: '2 3', rfield: '2 3', badjson: '2 3', continued: '2 3 4 5', cut: '2=3 4' }).map(
      ([script, loop]) => [`opencode-1.18.33 ${script}`, [loop, 'side@0: 1']],
    ),
  ),
  // The title failed, and is not asked for again.
  'opencode-1.18.33 retry500': ['2 3'],
  // Throws the answer away and asks again for twice as many tokens.
  'qwen-code-0.24.4 badjson': ['1', 'sample@2: 2 3'],
  // A sub-agent has tools of its own. Codex waits for it in a further turn; Qwen Code hears of its end in one.
  'claude-code-2.1.332 subagent': ['1 5', 'tools@0: 2 3 4'],
  'codex-0.171.0 subagent': ['1 2 6', 'tools@0: 3 4 5'],
  'opencode-1.18.33 subagent': ['1 5', 'tools@0: 2 3 4'],
  'qwen-code-0.24.4 subagent': ['1 2 6', 'tools@0: 3 4 5'],
  // Moves a reminder out of the first message of the user.
  'qwen-code-0.24.4 continued': ['1 2', 'history@1: 3 4'],
};

/** Keys that change nothing here although the client may expect it. */
const UNHONOURED: readonly (readonly [clients: RegExp, keys: readonly string[]])[] = [
  [/^claude-code/, ['output_config.effort', 'thinking', 'context_management']],
  [/^codex/, ['tools[] (web_search)', 'reasoning']],
  [/^openai-agents-chat.* ownmodelname/, ['tools[].strict']],
  [/^openai-agents-chat/, ['tools[].strict', 'verbosity']],
  [/^openai-agents-responses.* ownmodelname/, ['tools[].strict']],
  [/^openai-agents-responses/, ['tools[].strict', 'text.verbosity', 'reasoning']],
];

const runs = await Promise.all(recordedRuns().map(async (run) => ({ ...run, ...(await playRun(run)) })));

function expected(name: string, script: string): readonly string[] {
  return OTHERWISE[name] ?? (script === 'cut' ? [GIVES_UP.test(name) ? '1' : '1=2 3'] : ONE_BRANCH[script]!);
}

describe('unmodified agents', () => {
  it('are 129 recorded runs of 14 programs', () => {
    expect(runs).toHaveLength(129);
    expect(runs.flatMap(({ exchanges }) => exchanges)).toHaveLength(340);
  });

  for (const client of new Set(runs.map((run) => run.client)))
    it(`${client} gives the branches that a person would draw`, () => {
      for (const { script, branches } of runs.filter((each) => each.client === client)) {
        const name = `${client} ${script}`;
        expect({ name, branches }).toEqual({ name, branches: expected(name, script) });
      }
    });

  it('send no key that is refused, and those that change nothing are named', () => {
    for (const { client, script, unhonoured } of runs) {
      const name = `${client} ${script}`;
      const keys = UNHONOURED.find(([clients]) => clients.test(name))?.[1] ?? [];
      expect({ name, keys: unhonoured.toSorted() }).toEqual({ name, keys: keys.toSorted() });
    }
  });
});
