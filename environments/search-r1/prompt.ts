/** Upstream's prompts, byte for byte (scripts/data_process/{nq_search,nq,nq_rag}.py). */
import { ConfigError } from 'vf-search';
import { strip } from 'vf-search/metrics/python-text';

/**
 * - `search`: Search-R1 itself, also in the two scripts that merge several data sources
 * - `no_search`: reasoning without a search engine, upstream's R1 baseline
 * - `rag`: passages in the prompt, upstream's retrieval baseline
 */
export type PromptTemplate = 'search' | 'no_search' | 'rag';

const INSTRUCTIONS: Record<PromptTemplate, string> = {
  search:
    'Answer the given question. You must conduct reasoning inside <think> and </think> first every time you get new information. ' +
    'After reasoning, if you find you lack some knowledge, you can call a search engine by <search> query </search> and it will return ' +
    'the top searched results between <information> and </information>. You can search as many times as your want. If you find no ' +
    'further external knowledge needed, you can directly provide the answer inside <answer> and </answer>, without detailed ' +
    'illustrations. For example, <answer> Beijing </answer>.',
  no_search:
    'Answer the given question. You should first have a reasoning process in mind and then provides the answer. Show your reasoning in ' +
    '<think> </think> tags and return the final answer in <answer> </answer> tags, for example <answer> Beijing </answer>.',
  rag:
    'Answer the given question with some potentially useful context. You should analyze the question carefully, evaluate the given ' +
    'context (which may or may not be useful), and then generate an accurate and well-reasoned response. You should first have a ' +
    'reasoning process in mind and then provides the answer. Show your reasoning in <think> </think> tags and return the final answer ' +
    'in <answer> </answer> tags, for example <answer> Beijing </answer>.',
};

/** The user message for a question from `normalizeQuestion`. */
export function makePrefix(question: string, options: { readonly template?: PromptTemplate; readonly context?: string } = {}): string {
  const template = options.template ?? 'search';
  const context = template === 'rag' ? ` Context: ${options.context ?? ''} ` : '';
  return `${INSTRUCTIONS[template]} Question: ${question}${context}\n`;
}

/** Strips whitespace as Python does and adds `?` unless the question ends with an ASCII one. Throws ConfigError for a blank question, for which upstream raises IndexError. */
export function normalizeQuestion(question: string): string {
  const stripped = strip(question);
  if (stripped === '') throw new ConfigError(`A row has the blank question ${JSON.stringify(question)}. Fill it in or remove the row.`);
  return stripped.endsWith('?') ? stripped : `${stripped}?`;
}
