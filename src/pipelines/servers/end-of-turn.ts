/** The tokens that end a model's turn, as text. UltraRAG's routers look for them in answers. */

export const END_OF_TURN = '<|im_end|>';
export const END_OF_TEXT = '<|endoftext|>';

/** A prompt as it is sent: a server would read the end of an earlier turn within it as the end of this message. */
export function withoutEndOfTurn(prompt: string): string {
  return prompt.replaceAll(END_OF_TURN, '');
}
