/**
 * Coding agents of npm as clients of the gateway, unmodified: their scripts of examples/agents, as docs/agents.md shows them.
 * @module-tag long
 */
import { describe, expect, it } from 'vitest';
import type { ScriptedTurn } from '../../src/clients/scripted.ts';
import { contentText } from '../../src/core/message.ts';
import { branchLines, playHarness, results, toolCall, whyNoHarnesses } from './play-harness.ts';

interface Harness {
  readonly name: string;
  /** A call of its shell. */
  readonly shell: (command: string) => string;
  /** A call that starts a sub-agent; null if it has none. */
  readonly delegates: ((prompt: string) => string) | null;
  /** A call that waits for it, by what the first call gave. @default the first call waits */
  readonly awaits?: (started: string) => string;
  /** Branches after a broken call. @default one */
  readonly broken?: readonly string[];
  /** How it fails if the policy says nothing; null: it asks again. */
  readonly silent: 'no_answer' | 'exit_code' | null;
}

const description = 'Look at the note';
const HARNESSES: readonly Harness[] = [
  {
    name: 'claude-code',
    shell: (command) => toolCall('Bash', { command, description }),
    delegates: (prompt) => toolCall('Agent', { description, prompt, subagent_type: 'general-purpose', run_in_background: false }),
    silent: null,
  },
  {
    name: 'codex',
    shell: (cmd) => toolCall('exec_command', { cmd }),
    delegates: (message) => toolCall('spawn_agent', { message }),
    awaits: (started) => toolCall('wait_agent', { targets: [/"agent_id": ?"([^"]+)"/.exec(started)![1]] }),
    silent: 'no_answer',
  },
  {
    name: 'opencode',
    shell: (command) => toolCall('bash', { command, description }),
    delegates: (prompt) => toolCall('task', { description, prompt, subagent_type: 'general' }),
    silent: 'no_answer',
  },
  {
    name: 'qwen-code',
    shell: (command) => toolCall('run_shell_command', { command, is_background: false }),
    delegates: (prompt) => toolCall('agent', { description, prompt, subagent_type: 'general-purpose' }),
    broken: ['trunk: 2 turns, tools', 'sample of 0: 1 turns, tools'],
    silent: 'exit_code',
  },
  { name: 'pi', shell: (command) => toolCall('bash', { command }), delegates: null, silent: 'no_answer' },
];

const ANSWER = 'seventeen';

/** Writes a note, reads it and answers. */
function looks({ shell }: Harness, turn: ScriptedTurn): string {
  const said = results(turn.messages);
  if (said.length === 0) return `Let me look.\n\n${shell('echo 17 > note.txt')}`;
  return said.length === 1 ? shell('cat note.txt') : said[1]!.includes('17') ? ANSWER : `The note says: ${said[1]}`;
}

const missing = await whyNoHarnesses();
describe.skipIf(missing !== null)(`coding agents${missing === null ? '' : ` (skipped: ${missing})`}`, () => {
  describe.each(HARNESSES)('$name', (harness) => {
    it('plays a loop of tools in one branch, which reads what its tools said', async () => {
      const { rollout, failures } = await playHarness(harness.name, (turn) => looks(harness, turn));
      const { reward, error, stop, state } = rollout;
      expect({ reward, error, stop, answer: state['answer'], failures }).toEqual({
        reward: 1,
        error: null,
        stop: 'completed',
        answer: ANSWER,
        failures: [],
      });
      expect(branchLines(rollout)).toEqual(['trunk: 3 turns, tools']);
    });

    it.skipIf(harness.delegates === null)('has a branch of its own for a sub-agent', async () => {
      const prompt = 'Read the note for me.';
      const turns = (turn: ScriptedTurn) => {
        const isSub = turn.messages.some(({ role, content }) => role === 'user' && contentText(content).includes(prompt));
        if (isSub) return looks(harness, turn);
        const said = results(turn.messages);
        if (said.length === 0) return harness.delegates!(prompt);
        return said.length === 1 && harness.awaits !== undefined ? harness.awaits(said[0]!) : ANSWER;
      };
      const { rollout, failures } = await playHarness(harness.name, turns);
      const lines = branchLines(rollout).map((line) => line.replace(/(?<=trunk: )[23]/, 'its'));
      // Some hear of the end of the sub-agent in a further turn.
      expect({ error: rollout.error, failures, lines }).toEqual({
        error: null,
        failures: [],
        lines: ['trunk: its turns, tools', 'tools: 3 turns, tools'],
      });
    });

    it('ends where its turns are spent, and what it played is scored', async () => {
      const { rollout, failures } = await playHarness(harness.name, (turn) => looks(harness, turn), { max_turns: 2 });
      const { error, stop, reward, turns } = rollout;
      expect({ error, stop, reward, turns, failures }).toEqual({ error: null, stop: 'max_turns_reached', reward: 0, turns: 2, failures: [] });
    });

    it('goes on after a call of no tool and one that ends too early', async () => {
      const written = [toolCall('nothing', { a: 1 }), harness.shell('ls').slice(0, -'"}}\n</tool_call>'.length), ANSWER];
      let at = 0;
      const { rollout, failures } = await playHarness(harness.name, () => written[Math.min(at++, written.length - 1)]!);
      const { error, reward } = rollout;
      expect({ error, reward, failures, lines: branchLines(rollout) }).toEqual({
        error: null,
        reward: 1,
        failures: [],
        lines: harness.broken ?? ['trunk: 3 turns, tools'],
      });
    });

    it('has no reward if the policy says nothing, unless it goes on by itself', async () => {
      let at = 0;
      const { rollout, failures } = await playHarness(harness.name, () => (at++ === 0 ? '' : ANSWER));
      expect({ reason: rollout.error?.reason ?? null, reward: rollout.reward, failures }).toEqual({
        reason: harness.silent,
        reward: harness.silent === null ? 1 : null,
        failures: [],
      });
    });
  });
});
