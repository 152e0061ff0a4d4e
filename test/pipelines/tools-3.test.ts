/** UltraRAG 3.0's search_o1.yaml: found out from its steps, and run whole with a scripted model. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import type { PolicyClient } from '../../src/clients/policy-client.ts';
import { NO_JOURNAL } from '../../src/pipelines/call-journal.ts';
import { OpenPipeline } from '../../src/pipelines/open-pipeline.ts';

const STEPS = `
servers: {benchmark: servers/benchmark, generation: servers/generation, retriever: servers/retriever, prompt: servers/prompt, evaluation: servers/evaluation, router: servers/router, custom: servers/custom}
pipeline:
- benchmark.get_data
- retriever.retriever_init
- generation.generation_init
- custom.search_o1_init_list
- prompt.search_o1_init
- generation.generate
- loop:
    times: 10
    steps:
    - branch:
        router: [router.search_o1_check]
        branches:
          retrieve:
          - custom.search_o1_query_extract
          - retriever.retriever_search: {input: {query_list: extract_query_list}}
          - custom.search_o1_reasoning_extract
          - custom.search_o1_combine_list
          - prompt.search_o1_reasoning_indocument
          - generation.generate
          - custom.search_o1_extract_final_information
          - custom.search_o1_combine_final_information
          - prompt.search_o1_insert
          - generation.generate
          stop: []
- custom.output_extract_from_boxed
- evaluation.evaluate
`;

const folder = mkdtempSync(join(tmpdir(), 'tools-3-'));
afterAll(() => rmSync(folder, { recursive: true }));

it("runs with 3.0's tools: running lists of queries and results, prompts that are not escaped for HTML", async () => {
  mkdirSync(join(folder, 'prompt'));
  writeFileSync(join(folder, 'prompt/search_o1_reasoning.jinja'), 'Q: {{ question }}\n');
  writeFileSync(join(folder, 'prompt/search_o1_refinement.jinja'), 'R: {{ prev_reasoning }} | {{ search_query }} | {{ document }}');
  writeFileSync(join(folder, 'p.yaml'), STEPS);
  writeFileSync(
    join(folder, 'rows.jsonl'),
    '{"question": "0 What\'s <up>?", "golden_answers": ["Paris"]}\n{"question": "2 & more", "golden_answers": ["Rome"]}\n',
  );
  const prompts: string[] = [];
  const generate = async ({ prompt: [message] }: { readonly prompt: readonly [{ readonly content: string }] }) => {
    const prompt = message.content;
    prompts.push(prompt);
    const searches = prompt.split('<|end_search_result|>').length - 1;
    const wanted = Number(/^Q: (\d)/.exec(prompt)?.[1]);
    const text = prompt.startsWith('R: ')
      ? 'so\n**Final Information**\nfound'
      : searches < wanted
        ? `think ${searches} <|begin_search_query|> "query ${searches}" <|end_search_query|>`
        : `\\boxed{${wanted === 0 ? 'Paris' : 'Rome'}}`;
    return { text, finish: 'stop', stopReason: null, usage: { promptTokens: 0, completionTokens: 0, cachedTokens: null } };
  };
  const { signal } = new AbortController();
  await using pipeline = await OpenPipeline.open({
    path: join(folder, 'p.yaml'),
    set: [
      'benchmark.benchmark.path=rows.jsonl',
      'benchmark.benchmark.key_map={q_ls: question, gt_ls: golden_answers}',
      'evaluation.metrics=[em]',
      'evaluation.save_path=null',
    ],
    openers: {
      chat: async () =>
        ({ lease: async () => ({ generate, [Symbol.asyncDispose]: async () => {} }), close: async () => {} }) as unknown as PolicyClient,
      search: async () => ({ name: 's', search: async (queries) => queries.map((query) => [{ contents: `about ${query}` }]), close: async () => {} }),
    },
    importModule: (path) => Promise.reject(new Error(`Nothing imports ${path}`)),
    signal,
  });
  expect(pipeline.tools).toBe('3.0');
  const { variables } = await pipeline.run({ journal: NO_JOURNAL, signal });
  expect(variables).toMatchObject({
    pred_ls: ['Paris', 'Rome'],
    eval_res: { em: [1, 1], avg_em: 1 },
    total_subq_list: [['<PAD>'], ['query 0', 'query 1']],
    total_reason_list: [['<PAD>'], ['think 0', 'think 1']],
    total_final_info_list: [['<PAD>'], ['**Final Information**\nfound', '**Final Information**\nfound']],
  });
  expect(prompts[0]).toBe("Q: 0 What's <up>?");
  expect(prompts).toContain('R: Step 1: think 0\n\nStep 2: think 1 | query 1 | about query 1');
  const result = '<|begin_search_result|>**Final Information**\nfound<|end_search_result|>';
  expect(prompts.at(-1)).toBe(
    `Q: 2 & more<|begin_search_query|>query 0<|end_search_query|>\n${result}<|begin_search_query|>query 1<|end_search_query|>\n${result}`,
  );
});
