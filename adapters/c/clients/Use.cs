// Uses the C# binding of LevelDB that Debian packages, leveldb-sharp, and prints what it returns,
// one line for each step. The lines must be the same with every library. Arguments: a directory
// for new databases, and existing databases to continue with.

using System;
using System.Collections.Generic;
using System.IO;
using LevelDB;

static class Use
{
    static void Say(string what, object answer)
    {
        Console.WriteLine("{0}: {1}", what, answer ?? "nothing");
    }

    // Prints the kind of an error, without the text after it, which differs between the libraries.
    static void Fails(string what, Action action)
    {
        try
        {
            action();
            Say(what, "no error");
        }
        catch (Exception error)
        {
            Say(what, error.Message.Split(':')[0]);
        }
    }

    static Options Creating()
    {
        return new Options {
            CreateIfMissing = true, ParanoidChecks = true, WriteBufferSize = 1 << 16,
            MaxOpenFiles = 100, BlockSize = 1024, BlockRestartInterval = 4,
            Compression = CompressionType.SnappyCompression, BlockCache = new Cache(1 << 20)
        };
    }

    static string Listed(IEnumerable<KeyValuePair<string, string>> entries)
    {
        var text = new List<string>();
        foreach (var entry in entries)
            text.Add(entry.Key + "=" + entry.Value);
        return text.Count > 8
            ? text.Count + " entries, " + text[0] + " to " + text[text.Count - 1]
            : string.Join(" ", text);
    }

    // Opens a database, works with it, and closes it. The binding leaves iterators and snapshots to
    // the garbage collector, which must release them before LevelDB is closed.
    static void With(Options options, string path, Action<DB> work)
    {
        var db = DB.Open(options, path);
        work(db);
        GC.Collect();
        GC.WaitForPendingFinalizers();
        db.Dispose();
    }

    static void Basics(DB db)
    {
        db.Put("apple", "red");
        db.Put(new WriteOptions { Sync = true }, "cherry", "dark red");
        db["plum"] = "blue";
        Say("get", db.Get("apple"));
        Say("indexer", db["plum"]);
        Say("absent", db.Get("fig"));
        db.Put("empty", "");
        Say("empty", "[" + db.Get("empty") + "]");
        db.Delete("empty");
        Say("deleted", db.Get("empty"));
        db.Put("größe", "ñandú");
        Say("no ASCII", db.Get("größe"));
        db.Write(new WriteBatch().Put("fig", "green").Delete("plum").Put("lime", "green"));
        var batch = new WriteBatch().Put("never", "written");
        batch.Clear();
        db.Write(new WriteOptions { Sync = true }, batch);
        Say("after batches", Listed(db));
    }

    static void Snapshots(DB db)
    {
        var snapshot = db.CreateSnapshot();
        var then = new ReadOptions { Snapshot = snapshot, VerifyChecksums = true, FillCache = false };
        db.Put("apple", "yellow");
        db.Delete("fig");
        Say("now", db.Get("apple"));
        Say("then", db.Get(then, "apple"));
        using (var iterator = new Iterator(db, then))
        {
            iterator.SeekToFirst();
            while (iterator.IsValid)
            {
                Say("then", iterator.Key + "=" + iterator.Value);
                iterator.Next();
            }
        }
    }

    static void Iterators(DB db)
    {
        using (var iterator = new Iterator(db, new ReadOptions()))
        {
            iterator.SeekToLast();
            Say("last", iterator.Key);
            iterator.Previous();
            Say("before it", iterator.Key);
            iterator.Seek("b");
            Say("from b", iterator.Key);
            iterator.Seek("zz");
            Say("from zz", iterator.IsValid);
        }
    }

    static void Many(DB db)
    {
        for (int i = 0; i < 20000; i++)
            db.Put("key" + (i * 7919 % 20000).ToString("d5"), new string((char)('a' + i % 26), i % 80));
        for (int i = 0; i < 20000; i += 3)
            db.Delete("key" + i.ToString("d5"));
        Say("many", Listed(db));
        db.CompactRange("key00000", "key10000");
        db.Compact();
        Say("compacted", Listed(db));
        for (int i = 0; i < 20000; i += 1999)
            Say("key" + i, db.Get("key" + i.ToString("d5")));
        Say("level 0", db.GetProperty("leveldb.num-files-at-level0"));
        Say("no property", db.GetProperty("leveldb.nothing"));
    }

    static void Main(string[] args)
    {
        string path = Path.Combine(args[0], "csharp");
        Fails("missing", () => DB.Open(new Options(), path));
        With(Creating(), path, db =>
        {
            Fails("locked", () => DB.Open(Creating(), path));
            Basics(db);
            Snapshots(db);
            Iterators(db);
            Many(db);
        });
        Fails("exists", () => DB.Open(new Options { ErrorIfExists = true }, path));
        With(new Options(), path, db => Say("opened again", Listed(db)));
        DB.Repair(new Options(), path);
        With(new Options { ParanoidChecks = true }, path, db => Say("repaired", Listed(db)));
        for (int i = 1; i < args.Length; i++)
        {
            With(new Options(), args[i], db =>
            {
                Say("that of another library", Listed(db));
                db.Put("key99999", "added");
            });
        }
        string other = Path.Combine(args[0], "destroyed");
        DB.Open(Creating(), other).Dispose();
        DB.Destroy(new Options(), other);
        Say("destroyed", Directory.Exists(other));
    }
}
