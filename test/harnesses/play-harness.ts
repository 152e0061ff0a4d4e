/** Plays one row with a coding agent that scripts/harnesses/install.sh has installed: its script of examples/agents, in the environment's sandbox, over the gateway, by token ids. */
import { existsSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { loadEnvironment } from '../../environments/agent/environment.ts';
import type { AgentRow } from '../../environments/agent/rows.ts';
import { ScriptedClient, type ScriptedTurn } from '../../src/clients/scripted.ts';
import { contentText, type Message } from '../../src/core/message.ts';
import type { Rollout } from '../../src/rollouts/rollout.ts';
import { runRollouts } from '../../src/rollouts/run-rollouts.ts';
import { Gateway } from '../../src/server/gateway/gateway.ts';
import { TemporaryFolder } from '../cli/eval/temporary-folder.ts';
import { whyMissing } from '../execution/missing-executor.ts';

const ROOT = join(import.meta.dirname, '../..');
// oxlint-disable-next-line eslint/no-process-env -- as in scripts/harnesses/install.sh
export const HARNESSES_FOLDER = process.env['VF_HARNESSES_DIR'] ?? join(homedir(), '.cache/vf-search/harnesses');

/** Why they cannot be played here; null if they can. */
export async function whyNoHarnesses(): Promise<string | null> {
  return existsSync(join(HARNESSES_FOLDER, 'installed')) ? whyMissing('bubblewrap') : 'run scripts/harnesses/install.sh';
}

export interface PlayedHarness {
  readonly rollout: Rollout<AgentRow>;
  /** Of the gateway itself. */
  readonly failures: readonly unknown[];
}

/** @param turns what the policy writes */
export async function playHarness(
  name: string,
  turns: (turn: ScriptedTurn) => string,
  { question = 'What is in note.txt?', ...args }: Readonly<Record<string, unknown>> & { readonly question?: string } = {},
): Promise<PlayedHarness> {
  using folder = new TemporaryFolder();
  const dataset = join(folder.path, 'questions.jsonl');
  writeFileSync(dataset, `${JSON.stringify({ id: '1', question, answer: 'seventeen' })}\n`);
  const failures: unknown[] = [];
  await using gateway = await Gateway.open({ onFailure: (error) => failures.push(error) });
  const environment = await loadEnvironment(
    { command: ['sh', join(ROOT, `examples/agents/${name}.sh`), '{question}'], dataset, sandbox: 'bubblewrap', show: [HARNESSES_FOLDER], ...args },
    { env: { PATH: `${HARNESSES_FOLDER}/bin:${join(ROOT, 'node_modules/.bin')}:/usr/bin:/bin` } },
  );
  const options = {
    environment,
    client: new ScriptedClient({ turns, logProb: () => -0.5 }),
    maxTokens: null,
    maxConcurrent: 1,
    timeoutMs: null,
    seed: 0,
    sampling: { temperature: 1, topP: 1 },
    gateway,
    signal: new AbortController().signal,
  };
  for await (const { rollouts } of runRollouts([{ row: environment.eval.at(0), indices: [0] }], options)) return { rollout: rollouts[0]!, failures };
  throw new Error('no rollout was played');
}

export function toolCall(name: string, args: Readonly<Record<string, unknown>>): string {
  return `<tool_call>\n${JSON.stringify({ name, arguments: args })}\n</tool_call>`;
}

/** Texts of tools that the policy has read. */
export function results(messages: readonly Message[]): readonly string[] {
  return messages.filter(({ role }) => role === 'tool').map(({ content }) => contentText(content));
}

/** Each branch in a line: why it left the others, its turns, and the number of tools that it offers. */
export function branchLines({ branches }: Pick<Rollout, 'branches'>): readonly string[] {
  return branches.map(({ fork, parent, generations, tools }) => {
    const begins = fork === null ? 'trunk' : `${fork.kind}${parent === null ? '' : ` of ${parent}`}`;
    return `${begins}: ${generations.length} turns, ${tools.length === 0 ? 'no tools' : 'tools'}`;
  });
}
