/** The markers of a search inside the assistant's text, and the functions that read the text between them. */
import { lastBetween, strip } from 'vf-search/metrics/python-text';

export const BEGIN_SEARCH_QUERY = '<|begin_search_query|>';
export const END_SEARCH_QUERY = '<|end_search_query|>';
export const BEGIN_SEARCH_RESULT = '<|begin_search_result|>';
const END_SEARCH_RESULT = '<|end_search_result|>';

/** Follows a query after the last allowed search. */
export const LIMIT_NOTE = note('The maximum search limit is exceeded. You are not allowed to search.');

/** Follows a query that the same episode has searched before. */
export const REPEATED_NOTE = note('You have searched this query. Please refer to previous results.');

/**
 * The query that a generation ends with, stripped: the last text between its markers. Null if the generation does not end with the closing marker, or the query
 * is blank.
 * @example extractQuery('I need it. <|begin_search_query|> capital of Peru <|end_search_query|>') // 'capital of Peru'
 */
export function extractQuery(text: string): string | null {
  if (!endsWithQuery(text)) return null;
  const query = strip(lastBetween(text, BEGIN_SEARCH_QUERY, END_SEARCH_QUERY) ?? '');
  return query === '' ? null : query;
}

function endsWithQuery(text: string): boolean {
  const tail = text.lastIndexOf(END_SEARCH_QUERY);
  return tail !== -1 && strip(text.slice(tail + END_SEARCH_QUERY.length)) === '';
}

/** The text that a search inserts behind its query. */
export function searchResult(information: string): string {
  return `\n\n${BEGIN_SEARCH_RESULT}${information}${END_SEARCH_RESULT}\n\n`;
}

function note(sentence: string): string {
  return `\n${BEGIN_SEARCH_RESULT}\n${sentence}\n${END_SEARCH_RESULT}\n`;
}
