package tenon;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/** The lines from and to the worker. */
public final class Wire {
    private static Wire ofProcess;

    private final BufferedReader source;
    private final OutputStream sink;

    Wire(InputStream source, OutputStream sink) {
        this.source = new BufferedReader(new InputStreamReader(source, StandardCharsets.UTF_8));
        this.sink = sink;
    }

    /** Takes the stdout of the process: from here on System.out writes to stderr. */
    public static synchronized Wire ofProcess() {
        if (ofProcess == null) {
            ofProcess = new Wire(new FileInputStream(FileDescriptor.in), new FileOutputStream(FileDescriptor.out));
            System.setOut(System.err);
            System.setIn(InputStream.nullInputStream());
        }
        return ofProcess;
    }

    /** While the application loads; `tenon why` shows it. */
    public void starting(String what) {
        say(Map.of("starting", what));
    }

    String line() {
        try {
            return source.readLine();
        } catch (IOException error) {
            return null;
        }
    }

    void say(Object message) {
        byte[] line = (Json.text(message) + "\n").getBytes(StandardCharsets.UTF_8);
        synchronized (sink) {
            try {
                sink.write(line);
                sink.flush();
            } catch (IOException error) {
                Runtime.getRuntime().halt(1); // the worker is gone
            }
        }
    }
}
