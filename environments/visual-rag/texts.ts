/** The environment's texts for the policy (DDAI, generation.py), without chat markers. */

/** After a turn without an action. Upstream misspells the last closing tag. */
export const INVALID_ACTION =
  'Your previous action is invalid. You must conduct reasoning inside <think> and </think> every time you get new information. ' +
  'After reasoning, if you find you lack some knowledge, you can call a search engine using <search> query </search> and the user will return the search results. ' +
  'Whenever you retrieve an image, you may crop it for a clearer view using <bbox>[x1, y1, x2, y2]</bbox>. You can search as many times as you want. ' +
  'If you determine that no further external knowledge is needed, you must finish with <search_complete>true</search_complete>. ' +
  'Otherwise, continue with <search> or <bbox> actions until you are ready to finish. Please try again.\n';

/** After a crop before any search. */
export const NO_PAGE = 'Invalid action: No image to crop. Please search first.\n';

/** The text that upstream writes as the policy's last turn if no turn is left. */
export const FORCED_COMPLETION = '<think>Maximum turn limit reached. Trigger search_complete.</think><search_complete>true</search_complete>';

/** After a box that cannot be used. @param reason the reason in a few words; left out if empty */
export function invalidBox(reason = ''): string {
  return (
    'Your previous bbox is invalid.\n' +
    '- Expected one line: <bbox>[x1, y1, x2, y2]</bbox>\n' +
    '- Pixel coordinates, origin at top-left (0,0), x to the right, y downward\n' +
    '- Must satisfy: 0 <= x1 < x2 <= image_width, 0 <= y1 < y2 <= image_height (positive area)\n' +
    '- If x1 >= x2 or y1 >= y2, the bbox will be rejected.\n' +
    (reason === '' ? '' : `- We rejected your bbox because: ${reason}\n`) +
    'Please output a valid bbox now.\n'
  );
}

/** After a search that found nothing. Upstream has no text of its own for it. */
export const NO_HITS = 'Your search found no page. Please try a different query.\n';
