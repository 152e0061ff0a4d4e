/** The one line with which a check refuses, with the folder as FOLDER; null if it accepts. Other errors are returned with their stack. */
export async function problemLine(checked: Promise<unknown>, folder: string): Promise<string | null> {
  const error = await checked.then(
    () => null,
    (thrown: unknown) => thrown as Error,
  );
  if (error === null) return null;
  const isOneLine = error.name === 'ConfigError' && !error.message.includes('\n');
  return (isOneLine ? error.message : `No line of an error in the configuration: ${error.stack}`).replaceAll(folder, 'FOLDER');
}
