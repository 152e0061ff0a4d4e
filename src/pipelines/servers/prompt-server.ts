/** The server `prompt` of UltraRAG: fills in templates, one prompt for each question. Values are not escaped for HTML; UltraRAG 3.0 escapes them by mistake. */
import { readText } from '../../files/text-file.ts';
import type { KeySchema } from '../../schemas/config-keys.ts';
import { listOf } from '../../schemas/json-schema.ts';
import { PipelineFileError } from '../pipeline-error.ts';
import type { CheckContext, PipelineServer, PipelineTool, Values } from '../pipeline-server.ts';
import { PromptTemplate } from '../prompt-template.ts';
import { parseToolIo } from '../tool-io.ts';
import { texts, textLists, zipped } from './tool-kit.ts';
import type { ToolsVersion } from './tools-version.ts';

/** The way a tool makes its prompts. */
export interface PromptBuilder {
  readonly io: string;
  /** Begins with the names that its template gets: `question, documents (the first three)`. */
  readonly description: string;
  readonly arguments: Readonly<Record<string, KeySchema>>;
  /** One prompt for each question; `template` is null for a tool without one. */
  readonly build: (template: PromptTemplate | null, args: Values) => readonly string[];
}

function builder(io: string, description: string, args: Readonly<Record<string, KeySchema>>, values: (item: Values) => Values): PromptBuilder {
  const names = Object.keys(args);
  return { io, description, arguments: args, build: (template, given) => zipped(given, names).map((item) => template!.render(values(item))) };
}

const lines = (passages: unknown, most?: number): string => (passages as readonly string[]).slice(0, most).join('\n');
const lettered = (choices: unknown): string =>
  (choices as readonly string[]).map((choice, i) => `${String.fromCharCode(65 + i)}: ${choice}`).join('\n');

const ANSWERED = { prompt_ls: texts, ans_ls: texts, ret_psg: textLists } as const;
const continued =
  (most: number) =>
  ({ prompt_ls, ans_ls, ret_psg }: Values): Values => ({ history: prompt_ls, answer: ans_ls, passages: lines(ret_psg, most) });

const SHARED: Readonly<Record<string, PromptBuilder>> = {
  qa_boxed: builder('q_ls,template->prompt_ls', 'question', { q_ls: texts }, ({ q_ls }) => ({ question: q_ls })),
  qa_boxed_multiple_choice: builder(
    'q_ls,choices_ls,template->prompt_ls',
    'question, choices',
    { q_ls: texts, choices_ls: textLists },
    ({ q_ls, choices_ls }) => ({
      question: q_ls,
      choices: lettered(choices_ls),
    }),
  ),
  qa_rag_boxed: builder('q_ls,ret_psg,template->prompt_ls', 'question, documents', { q_ls: texts, ret_psg: textLists }, ({ q_ls, ret_psg }) => ({
    question: q_ls,
    documents: lines(ret_psg),
  })),
  qa_rag_boxed_multiple_choice: builder(
    'q_ls,choices_ls,ret_psg,template->prompt_ls',
    'question, documents, choices',
    { q_ls: texts, choices_ls: textLists, ret_psg: textLists },
    ({ q_ls, choices_ls, ret_psg }) => ({ question: q_ls, documents: lines(ret_psg), choices: lettered(choices_ls) }),
  ),
  RankCoT_kr: builder(
    'q_ls,ret_psg,template=kr_template->prompt_ls',
    'question, documents',
    { q_ls: texts, ret_psg: textLists },
    ({ q_ls, ret_psg }) => ({
      question: q_ls,
      documents: lines(ret_psg),
    }),
  ),
  RankCoT_qa: builder('q_ls,kr_ls,template=qa_template->prompt_ls', 'question, CoT', { q_ls: texts, kr_ls: texts }, ({ q_ls, kr_ls }) => ({
    question: q_ls,
    CoT: kr_ls,
  })),
  search_r1_gen: builder(
    'prompt_ls,ans_ls,ret_psg,template=search_r1_gen_template->prompt_ls',
    'history, answer, passages (the first three)',
    ANSWERED,
    continued(3),
  ),
  r1_searcher_gen: builder(
    'prompt_ls,ans_ls,ret_psg,template=r1_searcher_gen_template->prompt_ls',
    'history, answer, passages (the first five)',
    ANSWERED,
    continued(5),
  ),
  ircot_next_prompt: {
    io: 'memory_q_ls,memory_ret_psg,template->prompt_ls',
    description: 'documents, question, cur_answer',
    arguments: { memory_q_ls: listOf({}), memory_ret_psg: listOf({}) },
    build: (template, { memory_q_ls, memory_ret_psg }) =>
      ircotPrompts(template!, memory_q_ls as Rounds<string>, memory_ret_psg as Rounds<readonly string[]>),
  },
};

const VERSIONED: Readonly<Record<ToolsVersion, Readonly<Record<string, PromptBuilder>>>> = {
  '2.0': {
    search_o1_init: builder('q_ls,template->prompt_ls', 'question, MAX_SEARCH_LIMIT', { q_ls: texts }, ({ q_ls }) => ({
      question: q_ls,
      MAX_SEARCH_LIMIT: 10,
    })),
    searcho1_reasoning_indocument: builder(
      'prompt_ls,extract_query_list,ret_psg,template=reasoning_indoc_template->prompt_ls',
      'prev_reasoning, search_query, document (the first three passages)',
      { prompt_ls: texts, extract_query_list: texts, ret_psg: textLists },
      ({ prompt_ls, extract_query_list, ret_psg }) => ({
        prev_reasoning: prompt_ls,
        search_query: extract_query_list,
        document: lines(ret_psg, 3),
      }),
    ),
    search_o1_insert: {
      io: 'prompt_ls,ans_ls->prompt_ls',
      description: 'no template: the prompt, and the answer between the markers of a result',
      arguments: { prompt_ls: texts, ans_ls: texts },
      build: (_, args) =>
        zipped(args, ['prompt_ls', 'ans_ls']).map(
          ({ prompt_ls, ans_ls }) => `${String(prompt_ls)}<|begin_search_result|>${String(ans_ls)}<|end_search_result|>`,
        ),
    },
  },
  '3.0': {
    search_o1_init: builder('q_ls,template=searcho1_reasoning_template->prompt_ls', 'question', { q_ls: texts }, ({ q_ls }) => ({ question: q_ls })),
    search_o1_reasoning_indocument: builder(
      'extract_query_list,ret_psg,total_reason_list,template=searcho1_refine_template->prompt_ls',
      'prev_reasoning (the first and the last three steps), search_query, document',
      { extract_query_list: texts, ret_psg: textLists, total_reason_list: textLists },
      ({ extract_query_list, ret_psg, total_reason_list }) => ({
        prev_reasoning: numberedSteps(total_reason_list as readonly string[]),
        search_query: extract_query_list,
        document: lines(ret_psg),
      }),
    ),
    search_o1_insert: {
      io: 'q_ls,total_subq_list,total_final_info_list,template=searcho1_reasoning_template->prompt_ls',
      description: 'question; all queries and results follow',
      arguments: { q_ls: texts, total_subq_list: textLists, total_final_info_list: textLists },
      build: (template, args) =>
        zipped(args, ['q_ls', 'total_subq_list', 'total_final_info_list']).map(
          ({ q_ls, ...lists }) =>
            template!.render({ question: q_ls }) +
            zipped(lists, ['total_subq_list', 'total_final_info_list'])
              .map(
                ({ total_subq_list: query, total_final_info_list: information }) =>
                  `<|begin_search_query|>${String(query)}<|end_search_query|>\n<|begin_search_result|>${String(information)}<|end_search_result|>`,
              )
              .join(''),
        ),
    },
  },
};

export function promptBuilders(version: ToolsVersion): Readonly<Record<string, PromptBuilder>> {
  return { ...SHARED, ...VERSIONED[version] };
}

const file = (name: string): KeySchema => ({ type: 'string', minLength: 1, default: `prompt/${name}.jinja` });

/** UltraRAG's names and defaults. */
const PARAMETERS: Readonly<Record<string, KeySchema>> = {
  template: file('qa_boxed'),
  kr_template: file('RankCoT_knowledge_refinement'),
  qa_template: file('RankCoT_question_answering'),
  search_r1_gen_template: file('search_r1_append'),
  r1_searcher_gen_template: file('r1_searcher_append'),
  reasoning_indoc_template: file('search_o1_refinement'),
  searcho1_reasoning_template: file('search_o1_reasoning'),
  searcho1_refine_template: file('search_o1_refinement'),
};

export function promptServer(version: ToolsVersion): PipelineServer {
  const templates = new Map<string, Promise<PromptTemplate>>();
  const open = (path: unknown, { resolve }: CheckContext) => {
    const known = templates.get(String(path)) ?? readTemplate(String(path), resolve(String(path)));
    templates.set(String(path), known);
    return known;
  };
  const tools = Object.entries(promptBuilders(version)).map(([name, tool]) => [name, promptTool(tool, open)] as const);
  return { parameters: PARAMETERS, tools: Object.fromEntries(tools) };
}

function promptTool({ build, ...tool }: PromptBuilder, open: (path: unknown, context: CheckContext) => Promise<PromptTemplate>): PipelineTool {
  const hasTemplate = parseToolIo(tool.io, tool.io).inputs.some(({ argument }) => argument === 'template');
  return {
    ...tool,
    isPerItem: true,
    ...(hasTemplate && { check: async ({ template }, context) => warnOfNames(tool, await open(template, context), context) }),
    run: async (args, context) => ({ prompt_ls: build(hasTemplate ? await open(args['template'], context) : null, args) }),
  };
}

function warnOfNames({ description }: Omit<PromptBuilder, 'build'>, template: PromptTemplate, { warn }: CheckContext): void {
  const given = description
    .replaceAll(/\([^)]*\)|;.*/g, '')
    .split(',')
    .map((name) => name.trim());
  for (const name of template.unknownNames(given))
    warn?.(`The template ${template.name} prints {{ ${name} }}, which is empty: its tool gives it ${given.join(', ')}.`);
}

async function readTemplate(name: string, path: string): Promise<PromptTemplate> {
  const makeError = (message: string, { cause }: { readonly cause?: unknown }) =>
    new PipelineFileError(`The template ${name} cannot be read: ${message}`, { fault: 'file', cause });
  const source = await readText(path, { remedy: 'name a Jinja file, from this folder or from that of the pipeline', makeError });
  return new PromptTemplate(source, name);
}

function numberedSteps(steps: readonly string[]): string {
  const chosen = steps.length <= 3 ? steps : [steps[0]!, ...steps.slice(-3)];
  return chosen.map((step, i) => `Step ${i + 1}: ${step}`).join('\n\n');
}

/** Values of each round, by question; null if a question took no part. */
type Rounds<T> = readonly (readonly (T | null)[] | null)[];

/** IRCoT: the passages of all rounds, the first question, and the sentences with which later rounds asked. */
function ircotPrompts(template: PromptTemplate, questions: Rounds<string>, passages: Rounds<readonly string[]>): readonly string[] {
  return (questions[0] ?? []).flatMap((question, i) => {
    if (question === null) return [];
    const documents = questions.flatMap((_, round) => passages[round]?.[i] ?? []);
    const sentences = questions.slice(1).flatMap((round) => round?.[i] ?? []);
    return [
      template.render({
        documents: lines(documents),
        question,
        cur_answer: sentences
          .filter((sentence) => sentence !== '')
          .join(' ')
          .trim(),
      }),
    ];
  });
}
