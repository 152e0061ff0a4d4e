/**
 * Coding agents of npm as clients of a real vLLM, by token ids: one question each, through their scripts of examples/agents. What they ask, what they are told and what is on
 * record is checked, whatever the model says.
 * @module-tag long
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { HARNESSES_FOLDER, whyNoHarnesses } from '../harnesses/play-harness.ts';
import { EvaluationFolder, judge } from './evaluation-process.ts';
import type { HeardExchange, HeardHarness } from './listen-to-harness.ts';
import { type ServedModel, serveModel, serveUnlessGiven } from './serve.ts';

const ROOT = join(import.meta.dirname, '../..');
const MODEL = 'nano-copy';
/** Their prompts have up to 23,000 tokens of this model, which was made for 2,048: with fewer positions, vLLM reads beyond its table of them and computes NaN. */
const WINDOW = 65_536;
const MAX_TURNS = 4;
/** Of what docs/agents.md names. */
const HARNESSES = { 'claude-code': '2.1.332', codex: '0.171.0', opencode: '1.18.33', 'qwen-code': '0.24.4', pi: '0.73.1' } as const;

const missing = await whyNoHarnesses();
const folder = new EvaluationFolder();
let server: ServedModel;
beforeAll(async () => {
  if (missing !== null) return;
  server = await serveUnlessGiven('VLLM_LONG_BASE_URL', () =>
    serveModel(`packages/vf-search-models/models/${MODEL}`, { VF_VLLM_MAX_MODEL_LEN: `${WINDOW}` }, [
      '--hf-overrides',
      JSON.stringify({ max_position_embeddings: WINDOW }),
    ]),
  );
}, 1_800_000);
afterAll(async () => {
  folder[Symbol.dispose]();
  await server?.[Symbol.asyncDispose]();
});

type Json = Readonly<Record<string, unknown>>;

/** What does not depend on the question, the model and the folder. */
function shapeOf({ path, request }: Pick<HeardExchange, 'path' | 'request'>): Json {
  const { tools = [] } = request as { readonly tools?: readonly Json[] };
  const said = (request['messages'] ?? request['input']) as readonly Json[];
  return { path, keys: Object.keys(request).toSorted(), roles: said.map(({ role }) => role), tools: tools.map((tool) => toolName(tool)) };
}

function toolName({ name, type, function: offered }: Json): unknown {
  return name ?? (offered as Json | undefined)?.['name'] ?? type;
}

/** Of the first requests that are on record. */
function recordedShapes(harness: keyof typeof HARNESSES): readonly Json[] {
  const lines = readFileSync(join(ROOT, `test/golden/agents/${harness}-${HARNESSES[harness]}.jsonl`), 'utf8')
    .trimEnd()
    .split('\n');
  return lines.flatMap((line) => (JSON.parse(line) as { readonly exchanges: readonly HeardExchange[] }).exchanges.slice(0, 2).map(shapeOf));
}

describe.skipIf(missing !== null)(`coding agents with a real vLLM${missing === null ? '' : ` (skipped: ${missing})`}`, { timeout: 1_200_000 }, () => {
  it.each(Object.keys(HARNESSES) as (keyof typeof HARNESSES)[])(
    '%s plays a question; its tokens have log-probs that are the server’s own',
    async (harness) => {
      const dataset = join(folder.path, 'questions.jsonl');
      writeFileSync(dataset, `${JSON.stringify({ id: '1', question: 'What is in note.txt?', answer: 'seventeen' })}\n`);
      const listened = [
        'node',
        join(import.meta.dirname, 'listen-to-harness.ts'),
        `${HARNESSES_FOLDER}/bin`,
        join(ROOT, `examples/agents/${harness}.sh`),
        '{question}',
      ];
      const args = {
        command: listened,
        dataset,
        answer: 'json',
        reward: { command: ['true'] },
        sandbox: 'bubblewrap',
        show: [HARNESSES_FOLDER, join(ROOT, 'examples/agents')],
        output_kb: 16_384,
        max_turns: MAX_TURNS,
        max_tokens: 48,
      };
      const { summary, rollouts } = await folder.evaluate(
        { url: server.url, model: MODEL },
        'agent',
        '-T',
        '1',
        '-C',
        'output',
        '-a',
        JSON.stringify(args),
      );
      expect(summary).toMatchObject({ rollouts: { planned: 1, finished: 1, errored: 0 }, prefix_breaks: 0 });
      const [{ output }] = folder.lines(join(summary.directory, 'results.jsonl')) as unknown as [{ readonly output: Omit<HeardHarness, 'answer'> }];
      // Every turn was answered, and the agent could read the answer: a broken stream or a wrong field would be on its stderr. Qwen Code asks on
      // after a cut answer until its turns are spent, and says so.
      expect(output.exchanges.map(({ status }) => status)).toEqual(output.exchanges.map((_, i) => (i < MAX_TURNS ? 200 : 400)));
      expect(output.stderr.replaceAll(/^Retrying provider attempt .*$/gm, '')).not.toMatch(
        /\b(?:parse|protocol|invalid|unexpected|malformed|undefined|TypeError|stack|disconnected|retrying)\b/i,
      );
      expect(recordedShapes(harness)).toContainEqual(shapeOf(output.exchanges[0]!));
      const { error, tokens } = await judge(server.url, rollouts, MODEL);
      expect(tokens).toBeGreaterThan(0);
      expect(error).toBeLessThan(1e-4);
    },
  );
});
