/**
 * Plays what `vf-init` wrote to the folder `environments`, in a process that `node --test` starts next to their own tests, so that what they import is loaded once. Prints a line
 * of JSON for each.
 */
import { test } from 'node:test';
import { ExtractiveClient } from '../../src/clients/extractive.ts';
import { ScriptedClient, type ScriptedOptions } from '../../src/clients/scripted.ts';
import { contentText } from '../../src/core/message.ts';
import { type Environment, loadEnvironment, MultiTurnEnv } from '../../src/index.ts';
import { environmentDefaults } from '../../src/registry/load-environment.ts';
import { type Rollout, runRollouts, type RunOptions } from '../../src/rollouts.ts';
import { Gateway } from '../../src/server/gateway/gateway.ts';

const say = (name: string, value: unknown) => process.stdout.write(`${name} ${JSON.stringify(value)}\n`);

/** Its first two rows. */
async function played(environment: Environment, options: Pick<RunOptions<never>, 'client' | 'gateway'>): Promise<readonly Rollout[]> {
  const run = { maxTokens: null, maxConcurrent: 4, timeoutMs: null, seed: 0, sampling: { temperature: 1, topP: 1 } };
  const rows = [...environment.eval].slice(0, 2).map((row) => ({ row, indices: [0] }));
  const rollouts: Rollout[] = [];
  for await (const group of runRollouts(rows, { ...run, ...options, environment, signal: new AbortController().signal }))
    rollouts.push(...group.rollouts);
  return rollouts;
}

void test('the baseline plays', async () => {
  const environment = await loadEnvironment('capital-quiz', { limit: 5 });
  const rollouts = await played(environment, { client: new ExtractiveClient() });
  const { stop, error, segments, state } = rollouts.find(({ row }) => row.exampleId === environment.eval.at(0).exampleId)!;
  const [isOurs, text] = [environment instanceof MultiTurnEnv, segments.map((segment) => segment.text).join('')];
  say('capital-quiz', { isOurs, rows: environment.eval.length, defaults: environmentDefaults('capital-quiz'), stop, error, text, state });
});

void test('limits', async () => {
  for (const id of ['capital-quiz', 'with-tools'])
    await loadEnvironment(id, { limit: 'three' }).catch(({ message }: Error) => say(`limit of ${id}`, message));
});

/** Looks for the question, then answers with the last words of the first note. */
const searches: ScriptedOptions['turns'] = ({ messages }) => {
  const found = messages.find(({ role }) => role === 'tool');
  const question = contentText(messages.find(({ role }) => role === 'user')!.content);
  if (found === undefined) return `<tool_call>{"name": "find_note", "arguments": {"query": ${JSON.stringify(question)}}}</tool_call>`;
  const [, year, name] = /in (\d+)\.|is ([\w ]+)\./.exec(contentText(found.content)) ?? [];
  return `<answer> ${year ?? name ?? '?'} </answer>`;
};

/** Calls a tool that does not exist, then one with arguments that are not JSON, and then gives up. */
const misused: ScriptedOptions['turns'] = ({ messages }) => {
  const asked = messages.filter(({ role }) => role === 'assistant').length;
  return (
    ['<tool_call>{"name": "col\u00f6rs", "arguments": {}}</tool_call>', '<tool_call>{"name": "find_note", "arguments": {"query"</tool_call>'][
      asked
    ] ?? 'I give up.'
  );
};

void test('agents', async () => {
  await using gateway = await Gateway.open();
  for (const id of ['agent-ai-sdk', 'agent-openai-agents', 'agent-langgraph', 'agent-command']) {
    const client = new ScriptedClient({ turns: searches, logProb: () => -0.5 });
    const rollouts = await played(await loadEnvironment(id), { client, gateway });
    const of = ({ error, turns, stop, reward, branches }: Rollout) => {
      const [{ tools } = {}] = branches;
      return { error, turns, stop, isRight: reward! > 1, forks: branches.map(({ fork }) => fork), tools: tools?.map(({ name }) => name) };
    };
    say(id, rollouts.map(of));
    if (id === 'agent-command') continue;
    const wrong = new ScriptedClient({ turns: misused, logProb: () => -0.5 });
    say(
      `misused ${id}`,
      (await played(await loadEnvironment(id), { client: wrong, gateway })).map(({ error, reward }) => ({ error, isRight: reward! > 1 })),
    );
  }
});
