import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ConfigError, EnvironmentError } from 'vf-search';
import { afterAll, describe, expect, it } from 'vitest';
import { PictureFiles } from '../../../environments/visual-rag/picture-files.ts';

const root = mkdtempSync(join(tmpdir(), 'vf-picture-files-'));
afterAll(() => rmSync(root, { recursive: true }));
const PNG = Buffer.from('\x89PNG\r\n\x1a\n rest', 'latin1');
const JPEG = Buffer.from('\xff\xd8\xff\xe0 rest', 'latin1');
const WEBP = Buffer.from('RIFF1234WEBP rest', 'latin1');

async function folderOf(files: Readonly<Record<string, Buffer>>): Promise<{ readonly folder: string; readonly files: PictureFiles }> {
  const folder = mkdtempSync(join(root, 'pages-'));
  for (const [name, bytes] of Object.entries(files)) writeFileSync(join(folder, name), bytes);
  return { folder, files: await PictureFiles.open(folder) };
}

describe('PictureFiles', () => {
  it('lists every page once, sorted, and no other file', async () => {
    const { files, folder } = await folderOf({
      'b_2.png': PNG,
      'b_10.jpg': JPEG,
      'a.pdf_1.webp': WEBP,
      'b_2.jpeg': JPEG,
      'rows.parquet': PNG,
      '.png': PNG,
    });
    mkdirSync(join(folder, 'deeper'));
    expect(files.pages).toEqual(['a.pdf_1', 'b_10', 'b_2']);
  });

  it('finds endings in any case; the first of several files of a page is shown', async () => {
    const { files, folder } = await folderOf({
      'a.PNG': PNG,
      'b.JpEg': JPEG,
      'c.WEBP': WEBP,
      'd.PNG': PNG,
      'd.jpg': JPEG,
      'e.JPG': JPEG,
      'e.jpg': PNG,
    });
    mkdirSync(join(folder, 'deeper'));
    writeFileSync(join(folder, 'deeper', 'page.JPG'), JPEG);
    expect(files.pages).toEqual(['a', 'b', 'c', 'd', 'e']);
    const types = await Promise.all(['a', 'b', 'c', 'd', 'e', 'deeper/page'].map(async (page) => (await files.read(page)).mediaType));
    expect(types).toEqual(['image/png', 'image/jpeg', 'image/webp', 'image/png', 'image/png', 'image/jpeg']);
    expect(files.byPage.get('d')).toEqual(['d.PNG', 'd.jpg']);
    expect(await files.without(['a', 'deeper/page', 'A', 'deeper/none', 'none/page'])).toEqual(['A', 'deeper/none', 'none/page']);
  });

  it('tells what a picture is by its bytes, whatever its name says', async () => {
    const { files } = await folderOf({ 'a.png': JPEG, 'b.jpg': WEBP, 'c.webp': PNG });
    const types = await Promise.all(['a', 'b', 'c'].map(async (page) => (await files.read(page)).mediaType));
    expect(types).toEqual(['image/jpeg', 'image/webp', 'image/png']);
  });

  it('gives no bytes of a link out of the folder, nor of what is not a picture', async () => {
    const secret = join(root, 'secret.png');
    writeFileSync(secret, PNG);
    const { files, folder } = await folderOf({ 'svg.png': Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"/>'), 'empty.png': Buffer.alloc(0) });
    symlinkSync(secret, join(folder, 'link.png'));
    mkdirSync(join(folder, 'folder.png'));
    for (const page of ['link', 'svg', 'empty', 'folder', '../secret', 'missing', 'a\0b', ''])
      await expect(files.read(page)).rejects.toThrow(EnvironmentError);
    await expect(PictureFiles.open(join(folder, 'nowhere'))).rejects.toThrow(ConfigError);
  });
});
