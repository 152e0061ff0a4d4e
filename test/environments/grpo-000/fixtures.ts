/** An environment over a keyword base or an engine of the test's own. */
import { GrpoEnv, type GrpoEnvOptions, MockSearchEngine, type SearchEngine } from 'vf-search/environments/grpo-000';

export const QUESTION = { id: 'q1', question: 'When do quiet hours begin?', golden_answers: ['22:00'] };
const RULES = { 'quiet hours': 'Quiet hours begin at 22:00.' };

/** Remembers what it was asked. */
export function askedEngine(answer: (query: string) => string | Promise<string>): SearchEngine & { readonly asked: string[] } {
  const asked: string[] = [];
  return {
    name: 'asked',
    asked,
    search: async (query) => {
      asked.push(query);
      return answer(query);
    },
    close: async () => {},
  };
}

export function environmentWith(options: Partial<GrpoEnvOptions> = {}): GrpoEnv {
  return new GrpoEnv({ rows: [QUESTION], engine: new MockSearchEngine(RULES), ...options });
}
