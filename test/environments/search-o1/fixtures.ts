/** An environment over pages of the test's own, and a refiner that remembers what it was asked. */
import { scriptedModel } from 'vf-search';
import type { Model, ModelRequest } from 'vf-search/environment-kit';
import { type PageSearch, pageOf, SearchO1Env, type SearchO1Options, type WebPage } from 'vf-search/environments/search-o1';

export const QUESTION = { id: 'q1', question: 'Who is the mayor of Kinzer?', golden_answers: ['Purorka'] };
export const PAGES = ['Kinzer\nThe mayor of Kinzer is Purorka.', 'Kinzer\nThe river of Kinzer is Zumardle.'].map((contents) => pageOf({ contents }));

export const query = (text: string) => `<|begin_search_query|>${text}<|end_search_query|>`;
export const result = (information: string) => `\n\n<|begin_search_result|>${information}<|end_search_result|>\n\n`;
export const NOTES = {
  limit: '\n<|begin_search_result|>\nThe maximum search limit is exceeded. You are not allowed to search.\n<|end_search_result|>\n',
  repeated: '\n<|begin_search_result|>\nYou have searched this query. Please refer to previous results.\n<|end_search_result|>\n',
};

/** Remembers what it was asked. */
export function askedSearch(answer: (query: string) => readonly WebPage[] | Promise<readonly WebPage[]>): PageSearch & { readonly asked: string[] } {
  const asked: string[] = [];
  return {
    name: 'asked',
    asked,
    search: async (text) => {
      asked.push(text);
      return answer(text);
    },
    close: async () => {},
  };
}

export function environmentWith(options: Partial<SearchO1Options> = {}): SearchO1Env {
  return new SearchO1Env({ rows: [QUESTION], search: askedSearch(() => PAGES), ...options });
}

export function refinerWith(reply: (request: ModelRequest, prompt: string) => string | Promise<string>): Model {
  return scriptedModel({ name: 'refiner', replies: ([message], request) => reply(request, message!.content as string) });
}
