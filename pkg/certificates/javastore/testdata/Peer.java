import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.security.KeyStore;
import java.security.cert.X509Certificate;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLServerSocket;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManagerFactory;

/**
 * One side of a connection, as LINSTOR's controller and satellites are: stores of the type JKS, TLS 1.2 by default, a
 * client certificate is a must, names are not looked at. Each line of the input is one try, and is answered by one line.
 *
 * serve KEYSTORE TRUSTSTORE: answers "port N", and "yes" or "no" with a reason after one connection.
 * connect KEYSTORE TRUSTSTORE PORT: answers "yes" or "no" with a reason.
 */
public class Peer {
    private static final char[] PASSWORD = "linstor".toCharArray();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            String[] words = line.split(" ");
            try {
                SSLContext context = context(words[1], words[2]);
                if (words[0].equals("serve")) {
                    serve(context);
                } else {
                    connect(context, Integer.parseInt(words[3]));
                }
                System.out.println("yes");
            } catch (Exception e) {
                System.out.println("no " + String.valueOf(e.getMessage()).replace('\n', ' '));
            }
        }
    }

    private static SSLContext context(String keys, String trust) throws Exception {
        KeyManagerFactory own = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        own.init(store(keys), PASSWORD);
        TrustManagerFactory others = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        others.init(store(trust));
        SSLContext context = SSLContext.getInstance("TLSv1.2");
        context.init(own.getKeyManagers(), others.getTrustManagers(), null);
        return context;
    }

    private static KeyStore store(String file) throws Exception {
        KeyStore store = KeyStore.getInstance("JKS");
        try (FileInputStream in = new FileInputStream(file)) {
            store.load(in, PASSWORD);
        }
        return store;
    }

    private static void serve(SSLContext context) throws Exception {
        try (SSLServerSocket listener = (SSLServerSocket) context.getServerSocketFactory()
                .createServerSocket(0, 1, InetAddress.getByName("127.0.0.1"))) {
            listener.setNeedClientAuth(true);
            listener.setSoTimeout(60_000);
            System.out.println("port " + listener.getLocalPort());
            try (SSLSocket socket = (SSLSocket) listener.accept()) {
                talk(socket);
            }
        }
    }

    private static void connect(SSLContext context, int port) throws Exception {
        try (SSLSocket socket = (SSLSocket) context.getSocketFactory()
                .createSocket(InetAddress.getByName("127.0.0.1"), port)) {
            talk(socket);
        }
    }

    private static void talk(SSLSocket socket) throws Exception {
        socket.setSoTimeout(60_000);
        socket.startHandshake();
        ((X509Certificate) socket.getSession().getPeerCertificates()[0]).getSubjectX500Principal();
        socket.getOutputStream().write(1);
        if (socket.getInputStream().read() != 1) {
            throw new Exception("the other side has closed the connection");
        }
    }
}
