/** What becomes of sampling fields that only a chat template reads, and of those that nobody reads. */
import { afterAll, describe, expect, it } from 'vitest';
import { nanoServer, NANO_PATH } from '../../server/policy/nano-server.ts';
import { openTokenizer } from '../../../src/tokenizer/open-tokenizer.ts';
import { PROPERTY_NAMES } from '../../../src/sessions/setting-names.ts';
import { openNamedPolicy } from '../../../src/sessions/policy/open-named-policy.ts';
import { runInProcess } from '../../cli/in-process.ts';
import { EvalFolder } from '../../cli/vf-eval-process.ts';

/** Writes the effort, the documents, and NOTHINK where Qwen3's template closes the thoughts. */
const TEMPLATE =
  '{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n' +
  '{% if enable_thinking is defined and enable_thinking is false %}NOTHINK {% else %}THINK {% endif %}' +
  '{% if reasoning_effort %}EFFORT {{ reasoning_effort }} {% endif %}{% for d in documents or [] %}DOCUMENT {{ d.text }} {% endfor %}{% endif %}';

const tokenizer = await openTokenizer(NANO_PATH);
const server = await nanoServer({ engine: { chatTemplate: TEMPLATE } });
const bare = await nanoServer();
afterAll(() => Promise.all([server.close(), bare.close()]));

const settings = (url: string, sampling: object) => ['capitals', '-n', '1', '-t', '4', '-b', `${url}/v1`, '-S', JSON.stringify(sampling)];

/** Runs an evaluation, whose notices are returned with the text of its only rollout, control tokens included. */
async function played(sampling: object, format: 'chat' | 'continuation') {
  using folder = new EvalFolder();
  const { code, stderr } = await folder.run([...settings(server.url, sampling), '-a', JSON.stringify({ format })]);
  expect({ code, stderr }).toMatchObject({ code: 0 });
  const [, line = ''] = [...folder.files()].find(([name]) => name.endsWith('tokens.jsonl')) ?? [];
  const { token_ids: ids } = JSON.parse(line) as { readonly token_ids: readonly number[] };
  const [result] = folder.results() as {
    segments: { kind: string; text: string }[];
    generations: { opening?: string }[];
    completion: { content: string }[];
  }[];
  const written = result!.segments.filter(({ kind }) => kind === 'model').map((segment) => segment.text);
  const opened = { written, opening: result!.generations.map(({ opening }) => opening), completion: result!.completion[0]!.content };
  return { stderr, opened, text: tokenizer.decode(Int32Array.from(ids), { skipSpecialTokens: false }) };
}

async function refused(sampling: object, url = server.url): Promise<string> {
  using folder = new EvalFolder();
  const { code, stderr } = await folder.run(settings(url, sampling));
  expect({ code, stderr, rollouts: folder.results() }).toMatchObject({ code: 2, rollouts: [] });
  return stderr;
}

describe('sampling fields that only a chat template reads', () => {
  it.each([
    [{ extra_body: { chat_template_kwargs: { enable_thinking: false } } }, 'NOTHINK '],
    [{ chat_template_kwargs: { enable_thinking: true } }, 'THINK '],
    [{ enable_thinking: false }, 'NOTHINK '],
    [{ enable_thinking: false, chat_template_kwargs: { enable_thinking: true } }, 'THINK '],
    [{ reasoning_effort: 'none' }, 'NOTHINK EFFORT none '],
    [{ reasoning_effort: 'low' }, 'THINK EFFORT low '],
    [{ documents: [{ title: 't', text: 'd' }] }, 'THINK DOCUMENT d '],
  ])('reach the prompt and every bridge of a policy by token ids: %j', async (sampling, opening) => {
    for (const format of ['chat', 'continuation'] as const) {
      const { stderr, text, opened } = await played(sampling, format);
      const openings = text.split('<|im_start|>assistant\n').slice(1);
      expect(openings.length).toBe(format === 'chat' ? 3 : 1);
      for (const one of openings) expect(one.slice(0, opening.length)).toBe(opening);
      expect(stderr).not.toContain('no effect');
      // Scored, recorded and exported as part of the turn.
      const count = format === 'chat' ? opened.written.length : 1;
      for (const turn of opened.written.slice(0, count)) expect(turn.slice(0, opening.length)).toBe(opening);
      expect(opened.opening.slice(0, count)).toEqual(Array.from({ length: count }, () => opening));
      expect(opened.completion.slice(0, opening.length)).toBe(opening);
    }
  });

  it('are named if the template writes the same prompts without them', async () => {
    const { stderr } = await played({ chat_template_kwargs: { enable_thinkin: false } }, 'chat');
    expect(stderr).toMatch(/the chat template of \S+ writes the same prompts whatever enable_thinkin \(-S\) is: it has no effect/);
  });

  it('are refused for a model without a template, and where they would replace what the environment writes', async () => {
    const asked = { chat_template_kwargs: { enable_thinking: false } };
    expect(await refused(asked, bare.url)).toMatch(/^vf-eval: chat_template_kwargs in -S has no effect: \S+ has no chat template of its own/m);
    expect(await refused({ chat_template_kwargs: { tools: [] } })).toContain('chat_template_kwargs in -S cannot set "tools"');
    expect(await refused({ chat_template_kwargs: [] })).toContain('chat_template_kwargs in -S must be an object, got []');
    expect(await refused({ documents: ['d'] })).toContain('documents in -S must be a list of objects, got ["d"]');
    expect(await refused({ reasoning_effort: 1 })).toContain('reasoning_effort in -S must be a text such as "low", got 1');
    expect(await refused({ add_generation_prompt: false })).toContain('-S cannot set "add_generation_prompt": the environment writes the prompt');
  });
});

describe('sampling fields that nobody reads', () => {
  it('are refused by their names, where the server lists what it reads', async () => {
    expect(await refused({ top_a: 0.2 })).toMatch(/top_a in -S has no effect: \/v1\/completions of \S+ does not read it\. Leave it out\./);
    expect(await refused({ chat_template: '{{ 1 }}' })).toMatch(/chat_template in -S has no effect: .*Start the server with the template instead/);
    using folder = new EvalFolder();
    const chat = ['capitals', '-n', '1', '-p', 'embedded', '-m', NANO_PATH, '-S', '{"top_a": 1}'];
    expect((await folder.run(chat)).stderr).toContain('top_a in -S has no effect');
  });

  it('are refused by a gateway at its start, and in a session, by the name that each has for them', async () => {
    using folder = new EvalFolder();
    const served = ['gateway', '-b', `${server.url}/v1`, '--port', '0', '-S', '{"top_a": 1}'];
    const { code, stderr } = await runInProcess('vf-serve', served, { cwd: folder.path, env: {} });
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringMatching(/^vf-serve: top_a in -S has no effect/) });
    const { signal } = new AbortController();
    const surroundings = { variables: {}, secrets: new Set<string>(), signal, warn: () => {} };
    await using policy = await openNamedPolicy({ baseUrl: `${server.url}/v1` }, { environment: null, surroundings });
    await expect(policy.assertReads!({ extra: { top_a: 1 } }, PROPERTY_NAMES)).rejects.toThrow('top_a in sampling has no effect');
    expect(await policy.assertReads!({ extra: { top_k: 1 } }, PROPERTY_NAMES)).toEqual([]);
  });

  it('are refused for the baseline, which reads none', async () => {
    using folder = new EvalFolder();
    const { code, stderr } = await folder.run(['capitals', '-n', '1', '-p', 'baseline', '-S', '{"top_k": 5}']);
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringMatching(/top_k in -S has no effect: .* plays, which is not a model/) });
  });
});
