/** The server `router` of UltraRAG: gives each question a state that depends on the model's text. */
import type { PipelineServer, PipelineTool } from '../pipeline-server.ts';
import { END_OF_TEXT, END_OF_TURN } from './end-of-turn.ts';
import { perText, texts, textLists, zipped } from './tool-kit.ts';
import type { ToolsVersion } from './tools-version.ts';

function stated(io: string, description: string, state: (text: string) => string): PipelineTool {
  return perText(io, description, (data) => ({ data, state: state(data) }));
}

/** A router that decides by the end of the model's turn. */
function byEndOfTurn(io: string, description: string, state: (text: string) => string): PipelineTool {
  return { ...stated(io, description, state), needsEndOfTurn: true };
}

const has = (text: string, ...tokens: readonly string[]): boolean => tokens.some((token) => text.includes(token));

const SHARED: Readonly<Record<string, PipelineTool>> = {
  search_r1_check: byEndOfTurn('ans_ls->ans_ls', 'complete once the model ended its turn, else incomplete', (text) =>
    has(text, END_OF_TEXT, END_OF_TURN) ? 'complete' : 'incomplete',
  ),
  r1_searcher_check: byEndOfTurn('ans_ls->ans_ls', 'complete at </answer> or the end of the turn, else incomplete', (text) =>
    has(text, END_OF_TEXT, END_OF_TURN, '</answer>') ? 'complete' : 'incomplete',
  ),
  ircot_check_end: stated('ans_ls->ans_ls', 'complete at "so the answer is", else incomplete', (text) =>
    text.toLowerCase().includes('so the answer is') ? 'complete' : 'incomplete',
  ),
  webnote_check_page: stated('page_ls->page_ls', 'incomplete while something is "to be filled", else complete', (text) =>
    text.toLowerCase().includes('to be filled') ? 'incomplete' : 'complete',
  ),
  check_model_state: stated('ans_ls->ans_ls', 'continue at <search>, else stop', (text) => (text.includes('<search>') ? 'continue' : 'stop')),
};

const CARRIED = ['ans_ls', 'q_ls', 'total_subq_list', 'total_reason_list', 'total_final_info_list'] as const;

const SEARCH_O1_CHECK: Readonly<Record<ToolsVersion, PipelineTool>> = {
  '2.0': byEndOfTurn('ans_ls->ans_ls', 'stop once the model ended its turn, else retrieve', (text) =>
    text.includes(END_OF_TURN) ? 'stop' : 'retrieve',
  ),
  '3.0': {
    io: `${CARRIED.join(',')}->${CARRIED.join(',')}`,
    description: 'retrieve after a query, else stop',
    arguments: { ans_ls: texts, q_ls: texts, total_subq_list: textLists, total_reason_list: textLists, total_final_info_list: textLists },
    isPerItem: true,
    run: async (args) => {
      const items = zipped(args, CARRIED).map((item) => ({
        item,
        state: String(item['ans_ls']).includes('<|end_search_query|>') ? 'retrieve' : 'stop',
      }));
      return Object.fromEntries(CARRIED.map((name) => [name, items.map(({ item, state }) => ({ data: item[name], state }))]));
    },
  },
};

export function routerServer(version: ToolsVersion): PipelineServer {
  return { parameters: {}, tools: { ...SHARED, search_o1_check: SEARCH_O1_CHECK[version] } };
}
