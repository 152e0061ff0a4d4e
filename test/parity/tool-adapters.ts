/** Adapters for UltraRAG's tools one by one: custom, router, prompt, benchmark. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { PromptTemplate } from '../../src/pipelines/prompt-template.ts';
import type { CallContext, Values } from '../../src/pipelines/pipeline-server.ts';
import { PipelineFileError } from '../../src/pipelines/pipeline-error.ts';
import { loadBenchmark } from '../../src/pipelines/servers/benchmark-server.ts';
import { customServer } from '../../src/pipelines/servers/custom-server.ts';
import { promptBuilders } from '../../src/pipelines/servers/prompt-server.ts';
import { routerServer } from '../../src/pipelines/servers/router-server.ts';
import type { Adapter } from './vectors.ts';

/** Nothing of it is used by these tools. */
const CONTEXT: CallContext = {
  parameters: {},
  resolve: (file) => file,
  signal: new AbortController().signal,
  recall: () => undefined,
  record: () => {},
  fail: () => {},
};

const tools: Adapter = {
  actual: ({ tool, args }: { readonly tool: string; readonly args: Values }) => {
    const [, server, name, version] = /^(custom|router)\.(\w+)@(2|3)$/.exec(tool) ?? [];
    const { tools: known } = server === 'custom' ? customServer(`${version as '2' | '3'}.0`) : routerServer(`${version as '2' | '3'}.0`);
    return known[name!]!.run(args, CONTEXT);
  },
  declared: ({ tags }) =>
    tags.includes('upstream_bug') ? 'upstream’s pattern lacks its escapes; ours takes the text after the last <|begin_of_query|>' : undefined,
};

/** Texts in the note of the vectors. */
const TEMPLATES: Readonly<Record<string, string>> = {
  qa: 'Answer: {{question}}\n',
  qa_rag: 'Docs:\n{{documents}}\n\nQ: {{ question }}',
  append: '{{history}}{{answer}}\n<information>{{passages}}</information>\n\n',
};

const prompts: Adapter = {
  actual: ({ tool, template, args }: { readonly tool: string; readonly template?: string; readonly args: Values }) =>
    promptBuilders('2.0')[tool.replace('prompt.', '')]!.build(template === undefined ? null : templateOf(template), args),
};

function templateOf(name: string): PromptTemplate {
  return new PromptTemplate(TEMPLATES[name] ?? readFileSync(path.join(import.meta.dirname, `../../examples/prompt/${name}.jinja`), 'utf8'), name);
}

interface BenchmarkCase {
  readonly format: string;
  readonly rows: readonly unknown[];
  readonly benchmark: Values;
  readonly no_path?: boolean;
}

const benchmark: Adapter = {
  actual: async ({ format, rows, benchmark: settings, no_path: isPathless }: BenchmarkCase) => {
    const folder = mkdtempSync(path.join(tmpdir(), 'benchmark-'));
    try {
      const file = path.join(folder, `rows.${format}`);
      writeFileSync(file, format === 'jsonl' ? rows.map((row) => `${JSON.stringify(row)}\n`).join('') : JSON.stringify(rows));
      return await loadBenchmark({ ...settings, ...(isPathless === true ? {} : { path: file }) }, (name) => name);
    } catch (error) {
      if (error instanceof PipelineFileError) return { error: true };
      throw error;
    } finally {
      rmSync(folder, { recursive: true });
    }
  },
};

export const toolAdapters: Readonly<Record<string, Adapter>> = { ultrarag_tools: tools, ultrarag_prompts: prompts, ultrarag_benchmark: benchmark };
