/** The server `custom` of UltraRAG: extracts queries, reasoning and answers from the model's text. All functions are linear in the text. */
import { boxed } from '../../metrics/boxed.ts';
import { lastBetween, skipWhitespace, splitWords, strip, stripCharacters } from '../../metrics/python-text.ts';
import { listOf } from '../../schemas/json-schema.ts';
import type { PipelineServer, PipelineTool } from '../pipeline-server.ts';
import { perText, texts, textLists, zipped } from './tool-kit.ts';
import type { ToolsVersion } from './tools-version.ts';

const BEGIN_QUERY = '<|begin_search_query|>';
const END_QUERY = '<|end_search_query|>';
const FINAL = '**Final Information**';
const NO_QUERY = 'There is no query.';
/** Replaces the first entry of a list that has none yet. */
const PAD = '<PAD>';

const SHARED: Readonly<Record<string, PipelineTool>> = {
  search_r1_query_extract: perText('ans_ls->extract_query_list', 'the text after the last <search>, with a question mark', (answer) =>
    queryAfter(answer, '<search>'),
  ),
  r1_searcher_query_extract: perText('ans_ls->extract_query_list', 'the text after the last <|begin_of_query|>, with a question mark', (answer) =>
    queryAfter(answer, '<|begin_of_query|>'),
  ),
  output_extract_from_boxed: perText('ans_ls->pred_ls', 'what the last \\boxed{} holds, else the whole answer', boxed),
  ircot_get_first_sent: perText('ans_ls->q_ls', 'the first sentence', firstSentence),
  ircot_extract_ans: perText('ans_ls->pred_ls', 'the line after "so the answer is", else the whole answer', answerLine),
  evisrag_output_extract_from_special: perText('ans_ls->pred_ls', 'what stands between <answer> and </answer>, else the whole answer', specialAnswer),
  search_o1_reasoning_extract: perText('ans_ls->extract_reason_list', 'the text before the first query', (answer) =>
    strip(answer.split(BEGIN_QUERY, 1)[0]!),
  ),
  search_o1_extract_final_information: perText('ans_ls->extract_final_infor_list', 'the section **Final Information**', finalInformation),
  iterretgen_nextquery: {
    io: 'q_ls,ans_ls->nextq_ls',
    description: 'each question followed by its answer',
    arguments: { q_ls: texts, ans_ls: texts },
    isPerItem: true,
    run: async (args) => ({ nextq_ls: zipped(args, ['q_ls', 'ans_ls']).map(({ q_ls, ans_ls }) => `${String(q_ls)} ${String(ans_ls)}`) }),
  },
  merge_passages: {
    io: 'temp_psg,ret_psg->ret_psg',
    description: 'the passages of two searches, the later ones at the end',
    arguments: { temp_psg: textLists, ret_psg: textLists },
    isPerItem: true,
    run: async (args) => ({
      ret_psg: zipped(args, ['temp_psg', 'ret_psg']).map(({ temp_psg, ret_psg }) => [...(ret_psg as string[]), ...(temp_psg as string[])]),
    }),
  },
  assign_citation_ids: {
    io: 'ret_psg->ret_psg',
    description: 'numbers the passages of each question: [1], [2], ...',
    arguments: { ret_psg: textLists },
    isPerItem: true,
    run: async ({ ret_psg }) => ({
      ret_psg: (ret_psg as string[][]).map((passages) => passages.map((passage, i) => `[${i + 1}] ${strip(passage)}`)),
    }),
  },
  search_o1_init_list: {
    io: 'q_ls->total_subq_list,total_reason_list,total_final_info_list',
    description: 'empty lists of queries, reasoning and information for each question',
    arguments: { q_ls: texts },
    isPerItem: true,
    run: async ({ q_ls }) => {
      const empty = (q_ls as string[]).map(() => [PAD]);
      return { total_subq_list: empty, total_reason_list: empty, total_final_info_list: empty };
    },
  },
  search_o1_combine_list: {
    io: 'total_subq_list,extract_query_list,total_reason_list,extract_reason_list->total_subq_list,total_reason_list',
    description: 'adds the new query and reasoning to the lists of each question',
    arguments: { total_subq_list: textLists, extract_query_list: texts, total_reason_list: textLists, extract_reason_list: texts },
    isPerItem: true,
    run: async ({ total_subq_list, extract_query_list, total_reason_list, extract_reason_list }) => ({
      total_subq_list: appended(total_subq_list as string[][], extract_query_list as string[]),
      total_reason_list: appended(total_reason_list as string[][], extract_reason_list as string[]),
    }),
  },
  search_o1_combine_final_information: {
    io: 'total_final_info_list,extract_final_infor_list->total_final_info_list',
    description: 'adds the new information to the list of each question',
    arguments: { total_final_info_list: listOf(texts), extract_final_infor_list: texts },
    isPerItem: true,
    run: async ({ total_final_info_list, extract_final_infor_list }) => ({
      total_final_info_list: appended(total_final_info_list as string[][], extract_final_infor_list as string[]),
    }),
  },
};

const QUERY_EXTRACT: Readonly<Record<ToolsVersion, PipelineTool>> = {
  '2.0': perText('ans_ls->extract_query_list', 'the last query between its markers, with a question mark', (answer) => {
    const query = lastBetween(answer, BEGIN_QUERY, END_QUERY);
    return query === null ? NO_QUERY : asked(query);
  }),
  '3.0': perText('ans_ls->extract_query_list', 'the last query between its markers, on one line and without quotes', (answer) =>
    stripCharacters(splitWords(lastBetween(answer, BEGIN_QUERY, END_QUERY) ?? '').join(' '), ` "'`),
  ),
};

export function customServer(version: ToolsVersion): PipelineServer {
  return { parameters: {}, tools: { ...SHARED, search_o1_query_extract: QUERY_EXTRACT[version] } };
}

/** The text from the last tag up to the next `<`. */
function queryAfter(answer: string, tag: string): string {
  const at = answer.lastIndexOf(tag);
  return at < 0 ? NO_QUERY : asked(answer.slice(at + tag.length).split('<', 1)[0]!);
}

function asked(query: string): string {
  const stripped = strip(query);
  return stripped.endsWith('?') ? stripped : `${stripped}?`;
}

const SENTENCE_END = /[。！？.!?]/g;

/** The text up to the first end of a sentence that has something before it on its line. */
function firstSentence(answer: string): string {
  for (let start = 0; start <= answer.length;) {
    const lineEnd = answer.indexOf('\n', start);
    const line = answer.slice(start, lineEnd < 0 ? answer.length : lineEnd);
    SENTENCE_END.lastIndex = firstLength(line);
    const end = SENTENCE_END.exec(line);
    if (end !== null) return line.slice(0, end.index + 1);
    if (lineEnd < 0) break;
    start = lineEnd + 1;
  }
  return strip(answer);
}

/** Units of the first character. */
function firstLength(text: string): number {
  return (text.codePointAt(0) ?? 0) > 0xffff ? 2 : 1;
}

const ANSWER_IS = /so the answer is/iu;

function answerLine(answer: string): string {
  const match = ANSWER_IS.exec(answer);
  if (match === null) return strip(answer);
  let start = match.index + match[0].length;
  for (let next = -1; next !== start;) {
    next = start;
    start = skipWhitespace(answer, start);
    if (answer[start] === ':') start += 1;
  }
  return strip(answer.slice(start).split('\n', 1)[0]!);
}

function specialAnswer(answer: string): string {
  const [, after] = answer.split('<answer>', 2);
  return strip(after === undefined ? answer : after.split('</answer>', 1)[0]!);
}

function finalInformation(answer: string): string {
  const at = answer.indexOf(FINAL);
  return at < 0 ? '' : `${FINAL}\n${strip(answer.slice(at + FINAL.length))}`;
}

function appended(lists: readonly (readonly string[])[], entries: readonly string[]): readonly (readonly string[])[] {
  return lists.map((list, i) => {
    const entry = entries[i];
    if (entry === undefined) return list;
    return list.length === 1 && list[0] === PAD ? [entry] : [...list, entry];
  });
}
