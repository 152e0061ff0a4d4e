import { ConfigError } from '../../core/errors.ts';

/**
 * Throws ConfigError, with the line of the file, for token ids that the trained model does not have.
 * @param vocabularySize null if unknown
 */
export function assertInVocabulary(ids: Iterable<number>, vocabularySize: number | null, place: string): void {
  if (vocabularySize === null) return;
  for (const id of ids)
    if (id >= vocabularySize)
      throw new ConfigError(
        `${place} has the token id ${id}, but those of the trained model are 0 to ${vocabularySize - 1}; export it again with that model`,
      );
}
